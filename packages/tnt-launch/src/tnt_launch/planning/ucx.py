"""Plan what UCX needs besides: where the ranks of a job meet, and their secret."""

from __future__ import annotations

import os

from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import TRANSPORT

FIRST_PORT, LAST_PORT = 20000, 32768  # below those that the kernel gives to clients


def is_needed(settings: Settings) -> bool:
    """Return whether the ranks of one host are to talk through UCX. Pure."""
    return settings.get(TRANSPORT) == "ucx"


def rendezvous_variables(host: str, job_id: str, secret: str) -> dict[str, str]:
    """Choose the variables by which the ranks of a job find and trust each other. Pure.

    Args:
        host: Name or address of the host of rank 0.
        job_id: 16 hexadecimal digits; they choose the port, so that jobs on a host do not meet.
        secret: From `make_job_secret`.
    """
    port = FIRST_PORT + int(job_id, 16) % (LAST_PORT - FIRST_PORT)
    return {"TNT_RENDEZVOUS": f"{host}:{port}", "TNT_JOB_SECRET": secret}


def make_job_secret() -> str:
    """Draw the secret of a new job: 32 hexadecimal digits."""
    return os.urandom(16).hex()
