"""SLURM: names in its lists of nodes, addresses of names that no resolver knows, its processes."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tnt_comm.start.processes import PROC, processes_above

_COMMAND_S = 20.0
# `gpu[01-03,7]-ib`, or a name without brackets; commas inside of brackets belong to a word.
_WORD = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_BRACKETS = re.compile(r"\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]")
_IN_HOSTS = re.compile(r"(\S+)\s")  # the first line of `getent ahosts`
_ADDRESS = re.compile(r"\bNodeAddr=(\S+)")
_DAEMON = "slurmstepd"  # the parent of all tasks of a step, and of a batch script
_OF_BATCH_SCRIPT = ".batch]"


def first_node(nodes: str) -> str:
    """Return the first name in a list such as `n[1-2,5],head`. Pure."""
    return next(iter(node_names(nodes)), "")


def node_names(nodes: str) -> Iterator[str]:
    """Yield the names in a list such as `n[1-2,5],head`. Pure."""
    for word in _WORD.findall(nodes):
        yield from _expanded(word)


def addresses_of_node(name: str) -> tuple[str, ...]:
    """Return by which names or addresses a node may be reached. Local; may ask SLURM."""
    with contextlib.suppress(OSError):
        socket.getaddrinfo(name, None)
        return (name,)
    found = _ADDRESS.search(_told(_command_of_node(name), _COMMAND_S))
    return (found[1] if found is not None else name,)


def known_addresses_of_node(name: str, within_s: float) -> tuple[str, ...]:
    """Return by which addresses a node may be reached, nothing if that takes longer. Local."""
    # Another program can be ended; a resolver that does not answer cannot.
    found = _IN_HOSTS.match(_told(["getent", "ahosts", name], within_s)) or _ADDRESS.search(
        _told(_command_of_node(name), within_s)
    )
    return (found[1],) if found is not None else ()


def daemon_above(proc: Path = PROC) -> str | None:
    """Return the title of SLURM's process above this one, `slurmstepd: [7.0]`, if any. Local."""
    with contextlib.suppress(OSError):
        for pid, name in processes_above(os.getppid(), proc):
            if name.startswith(_DAEMON):
                title = (proc / str(pid) / "cmdline").read_bytes()
                return title.decode(errors="replace").strip("\0 ")
    return None


def without_step_of_other_job(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return variables without those that a batch script has from a step that submitted it. Local.

    SLURM passes them on, and sets no such variables of a batch script.
    """
    if "SLURM_STEP_ID" not in environment or _OF_BATCH_SCRIPT not in (daemon_above() or ""):
        return environment
    return {name: text for name, text in environment.items() if not name.startswith("SLURM_STEP")}


def _command_of_node(name: str) -> Sequence[str]:
    return ["scontrol", "--oneliner", "show", "node", name]


def _told(command: Sequence[str], within_s: float) -> str:
    """Return the output of a command, nothing if there is none in time."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            command, capture_output=True, text=True, timeout=within_s, check=False
        ).stdout
    return ""


def _expanded(word: str) -> Iterator[str]:
    brackets = _BRACKETS.search(word)
    if brackets is None:
        yield word
        return
    before, after = word[: brackets.start()], word[brackets.end() :]
    for part in brackets[1].split(","):
        first, dash, last = part.partition("-")
        numbers = range(int(first), int(last) + 1) if dash else [int(first)]
        for number in numbers:
            yield from _expanded(f"{before}{number:0{len(first)}d}{after}")
