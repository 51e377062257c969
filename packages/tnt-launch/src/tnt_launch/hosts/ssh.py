"""The command by which ssh starts an agent, and why it did not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

AGENT = "tnt_launch.hosts.host_agent"

_NOT_FOUND, _NOT_EXECUTABLE, _SSH_FAILED = 127, 126, 255


def remote_command(
    interpreter: str, environment: Mapping[str, str], module: str, *arguments: str
) -> str:
    """Return the command line by which a host's login shell runs a module, quoted."""
    # Nothing secret may be in it, as all users of a host can see it. Python would import the user's
    # own modules from the folder in which it is started, so that is not the user's home.
    words = ["exec"]
    folders = environment.get("PYTHONPATH")
    if folders:
        path = os.pathsep.join(map(os.path.abspath, filter(None, folders.split(os.pathsep))))
        words += ["env", f"PYTHONPATH={path}"]
    return "cd / && " + shlex.join([*words, interpreter, "-m", module, *arguments])


def ssh_command(ssh: Sequence[str], name: str, command: str) -> list[str]:
    """Return the arguments that run a command on a host. Pure."""
    return [*ssh, name, command]


def failure_text(exit_code: int | None, errors: str, interpreter: str) -> str:
    """Say why an agent has not come, or has gone, from what ssh and the host wrote. Pure."""
    lines = errors.strip().splitlines()
    last = lines[-1].strip() if lines else ""
    if "No module named" in last and "tnt_launch" in last:
        return (
            f"{interpreter} has no tarantella there. Install the same version of tarantella on all "
            "hosts, at the same path."
        )
    if exit_code in (_NOT_FOUND, _NOT_EXECUTABLE):
        return (
            f"{interpreter} cannot be executed there ({last}). Install Python and tarantella on "
            "all hosts, at the same path."
        )
    if exit_code == _SSH_FAILED:
        told = last or "ssh failed without a message"
        return f"{told} (`ssh HOST true` must work without a question)"
    if exit_code is None:
        return last
    return (
        f"it has ended too early: {last or 'no message'} (exit code {exit_code}). `ssh HOST true` "
        "must work, without output and without a terminal (RequestTTY, -t)"
    )
