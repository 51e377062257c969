"""How ssh starts an agent, with which variables, and why it did not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

# They describe a host, a login or a terminal, and another host has its own.
_OF_THE_HOST = {
    "_",
    *("HOME", "LOGNAME", "MAIL", "SHELL", "USER", "USERNAME"),
    *("HOST", "HOSTNAME"),
    *("OLDPWD", "PWD", "SHLVL"),
    *("TEMP", "TMP", "TMPDIR"),
    *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "WINDOWID"),
}
_PREFIXES_OF_THE_HOST = ("SSH_", "XDG_")
AGENT = "tnt_launch.hosts.host_agent"

_NOT_FOUND, _NOT_EXECUTABLE, _SSH_FAILED = 127, 126, 255


def carried_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are the same on all hosts; `-x NAME` carries others. Pure."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _OF_THE_HOST and not name.startswith(_PREFIXES_OF_THE_HOST)
    }


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
