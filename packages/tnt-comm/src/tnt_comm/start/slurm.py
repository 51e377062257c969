"""Nodes of SLURM: names in its lists, and addresses of names that no resolver knows."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from collections.abc import Iterator

_COMMAND_S = 20.0
# `gpu[01-03,7]-ib`, or a name without brackets; commas inside of brackets belong to a word.
_WORD = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_BRACKETS = re.compile(r"\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]")
_ADDRESS = re.compile(r"\bNodeAddr=(\S+)")


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
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        command = ["scontrol", "--oneliner", "show", "node", name]
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        ).stdout
        found = _ADDRESS.search(told)
        if found is not None:
            return (found[1],)
    return (name,)


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
