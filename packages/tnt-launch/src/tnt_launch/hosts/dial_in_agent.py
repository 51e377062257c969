"""The agent that a scheduler has started on a host, and that connects to its launcher."""

# The scheduler passes on neither stdin nor stdout, so its command says where the launcher listens.
#
#     python -m tnt_launch.hosts.dial_in_agent NAME-OF-THE-HOST PORT ADDRESS [ADDRESS ...]

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.authentication import user_secret
from tnt_launch.hosts.channel import Frame
from tnt_launch.hosts.join import serve
from tnt_launch.planning.host_facts import own_version
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import JOB_SECRET

_CONNECT_S = 10.0  # for each address


def dial_in(name: str, port: int, addresses: Sequence[str]) -> str:
    """Serve the launcher at the first address where it is; return what went wrong, if anything."""
    secret = os.environ.get(JOB_SECRET.name) or user_secret(Settings({}, {}))
    join = Frame("join", 0, {"host": name, "slots": None, "version": own_version()})
    reasons = []
    for address in dict.fromkeys(addresses):
        try:
            connection = socket.create_connection((address, port), _CONNECT_S)
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
            continue
        with connection:
            agent = serve(connection, None, secret, join)
        if agent.is_authenticated:
            return agent.why if agent.exit_code == 2 else ""
        reasons.append(f"{address}: {agent.why}")
    return f"the launcher cannot be reached at port {port} of {', '.join(reasons)}"


def main(arguments: Sequence[str]) -> int:
    """Serve the launcher that has had this process started, and return the exit code."""
    name, port, *addresses = arguments
    # SLURM starts all agents by one command, and knows how its host calls the launcher's.
    name = name or os.environ["SLURMD_NODENAME"]
    first = os.environ.get("SLURM_LAUNCH_NODE_IPADDR")
    try:
        why = dial_in(name, int(port), [first, *addresses] if first in addresses else addresses)
    except LaunchError as error:
        why = str(error)
    if why:
        sys.stderr.write(f"{name}: {why}\n")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
