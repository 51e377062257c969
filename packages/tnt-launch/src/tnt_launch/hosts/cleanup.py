"""`--cleanup` on several hosts: each cleans itself up, and all that they say is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tnt_launch.hosts.ssh import failure_text, remote_command
from tnt_launch.planning.addresses import is_this_host
from tnt_launch.planning.hosts import HostSlots

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
