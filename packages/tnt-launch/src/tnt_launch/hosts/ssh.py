"""How ssh starts an agent, with which variables, why it did not; `--cleanup` on several hosts."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tnt_launch.planning.addresses import is_this_host
from tnt_launch.planning.hosts import HostSlots

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


LIMIT_S = 60.0  # time that a host has

_AT_ONCE = 32


def clean_up_hosts(hosts: Sequence[HostSlots], ssh: Sequence[str], arguments: Sequence[str]) -> int:
    """Clean up on hosts; return 1 if one was not reached or a process did not end, else 0."""
    remote = remote_command(sys.executable, os.environ, "tnt_launch", *arguments)

    def run(host: HostSlots) -> tuple[int, str]:
        if is_this_host(host.name):
            command = [sys.executable, "-m", "tnt_launch", *arguments]
        else:
            command = [*ssh, host.name, remote]
        return _run(command)

    exit_code = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for host, (code, text) in zip(hosts, pool.map(run, hosts), strict=True):
            exit_code = exit_code or int(code != 0)
            sys.stdout.writelines(f"{host.name}: {line}\n" for line in text.splitlines())
    return exit_code


def _run(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"it did not answer within {LIMIT_S:g} s"
    except OSError as error:
        return 1, f"{command[0]}: {error.strerror}"
    if done.returncode in (0, 1) and done.stdout:
        return done.returncode, done.stdout
    return 1, failure_text(done.returncode, done.stderr, sys.executable)
