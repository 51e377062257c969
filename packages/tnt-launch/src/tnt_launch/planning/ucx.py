"""Plan what UCX needs besides: where the ranks of a job meet, and their secret."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tnt_launch.planning.host_facts import LOOPBACK, HostFacts
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import TRANSPORT

FIRST_PORT, LAST_PORT = 20000, 32768  # below those that the kernel gives to clients


def rendezvous_of(
    settings: Settings, hosts: Sequence[HostFacts], job_id: str, secret: str
) -> dict[str, str]:
    """Choose the variables by which the ranks of a job find and trust each other. Pure."""
    # Between several hosts the ranks themselves decide, by the libraries that they find.
    choice = settings.get(TRANSPORT)
    if choice != "ucx" and not (len(hosts) > 1 and choice in (None, "auto")):
        return {}
    address = hosts[0].address if len(hosts) > 1 else LOOPBACK
    host = f"[{address}]" if ":" in address else address
    port = FIRST_PORT + int(job_id, 16) % (LAST_PORT - FIRST_PORT)
    return {"TNT_RENDEZVOUS": f"{host}:{port}", "TNT_JOB_SECRET": secret}


def make_job_secret() -> str:
    """Draw the secret of a new job: 32 hexadecimal digits."""
    return os.urandom(16).hex()
