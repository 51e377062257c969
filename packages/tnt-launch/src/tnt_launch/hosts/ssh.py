"""The command by which ssh starts an agent, and why it did not."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

AGENT = "tnt_launch.hosts.host_agent"

_NOT_FOUND, _NOT_EXECUTABLE, _SSH_FAILED = 127, 126, 255


def agent_command(interpreter: str, environment: Mapping[str, str]) -> str:
    """Return the command line for a host's login shell, quoted. Pure.

    Nothing secret may be in it, as all users of a host can see it.

    Args:
        interpreter: Absolute path of the Python that has tnt-launch.
        environment: That of the launcher; its `PYTHONPATH` is needed to find tnt-launch.
    """
    words = ["exec"]
    if environment.get("PYTHONPATH"):
        words += ["env", f"PYTHONPATH={environment['PYTHONPATH']}"]
    return shlex.join([*words, interpreter, "-m", AGENT])


def ssh_command(ssh: Sequence[str], name: str, remote_command: str) -> list[str]:
    """Return the arguments that run a command on a host. Pure.

    Args:
        ssh: The command of the user's ssh.
        name: Of the host, as ssh knows it.
        remote_command: From `agent_command`.
    """
    return [*ssh, name, remote_command]


def failure_text(exit_code: int | None, errors: str, interpreter: str) -> str:
    """Say why an agent has not come, or has gone. Pure.

    Args:
        exit_code: That of ssh, `None` if it still runs.
        errors: What ssh, the login shell and the agent have written to stderr.
        interpreter: The Python that was to run the agent.
    """
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
    return f"it has ended too early: {last or 'no message'} (exit code {exit_code})"
