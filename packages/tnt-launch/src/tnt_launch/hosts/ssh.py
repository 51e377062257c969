"""Hosts that are reached by ssh: how it starts agents, which through which, and `--cleanup`."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tnt_launch.hosts.channel import Frame
from tnt_launch.hosts.children import failure_text
from tnt_launch.hosts.cluster import Cluster
from tnt_launch.log import LOGGER
from tnt_launch.planning.addresses import is_this_host, which_is_this_host
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec

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

CLEANUP_S = 60.0  # time that a host has to clean up
_AT_ONCE = 32


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
    path = search_path(environment)
    words = ["exec", *(["env", f"PYTHONPATH={path}"] if path else [])]
    return "cd / && " + shlex.join([*words, interpreter, "-m", module, *arguments])


def search_path(environment: Mapping[str, str]) -> str:
    """Return `PYTHONPATH` for a process in another folder, empty if there is none."""
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(map(os.path.abspath, filter(None, folders)))


def clean_up_hosts(hosts: Sequence[HostSlots], ssh: Sequence[str], arguments: Sequence[str]) -> int:
    """Clean up on hosts; return 1 if one was not reached or a process did not end, else 0."""
    from concurrent.futures import ThreadPoolExecutor  # rarely needed

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
            timeout=CLEANUP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"it did not answer within {CLEANUP_S:g} s"
    except OSError as error:
        return 1, f"{command[0]}: {error.strerror}"
    if done.returncode in (0, 1) and done.stdout:
        return done.returncode, done.stdout
    return 1, failure_text(done.returncode, done.stderr, sys.executable, "ssh HOST true")


FAN_OUT = 32  # hosts that one process reaches itself; others are reached through these
CONNECT_S = 60.0  # time that all hosts have to be reached and to tell about themselves


def branches(nodes: Sequence[int], fan_out: int = FAN_OUT) -> list[Sequence[int]]:
    """Divide hosts, each branch reached through its first, so that sizes differ by at most one."""
    count = min(len(nodes), fan_out)
    bounds = [len(nodes) * i // count for i in range(count + 1)] if count else []
    return [nodes[begin:end] for begin, end in itertools.pairwise(bounds)]


class SshCluster(Cluster):
    """The hosts that a user has named; see `Cluster`."""

    def __init__(self, spec: LaunchSpec, settings: Settings) -> None:
        super().__init__(spec, settings, sys.executable)
        self.hosts = list(spec.hosts)
        self.here = which_is_this_host([host.name for host in self.hosts])
        self._via: dict[int, int] = {}  # by whose agent a host is reached, if not from here
        self._command = remote_command(sys.executable, os.environ, AGENT)

    def _reach(self) -> float:
        if self.here is not None:  # first, since it may take its time, in which nobody hears of us
            self.facts[self.here] = self._inspect_here()
        # What a scheduler offers need not work on its other hosts.
        fan_out = FAN_OUT if self._spec.allocation is None else len(self.hosts)
        others = [node for node in range(len(self.hosts)) if node != self.here]
        for head, *below in branches(others, fan_out):
            self._start(head, below)
        return CONNECT_S

    def _lose_unseen(self, node: int, why: str) -> None:
        if node in self.facts or node not in self._via:
            super()._lose_unseen(node, why)
            return
        # Keys and settings of ssh may be on this host alone.
        name, via = self.hosts[node].name, self.hosts[self._via.pop(node)].name
        LOGGER.warning(
            "host %s is reached directly, since it cannot be reached from %s: %s "
            "[reached-directly]",
            name,
            via,
            why,
        )
        self._start_child(node)

    def _hello(self) -> dict[str, Any]:
        return {**super()._hello(), "environment": carried_environment(os.environ)}

    def _start(self, head: int, below: Sequence[int]) -> None:
        self._start_child(head)
        if below:
            hosts = [[node, self.hosts[node].name] for node in below]
            fields = {"hosts": hosts, "ssh": list(self._spec.ssh), "command": self._command}
            self._children.send(Frame("connect", head, fields))
        for node in below:
            self._via[node] = head
            self._children.assign(node, head)
            self._greet(node)

    def _start_child(self, node: int) -> None:
        name = self.hosts[node].name
        self._children.start(node, [*self._spec.ssh, name, self._command])
        self._greet(node)
