"""The hosts of a job, from a host file or from `-H`, with ranges as of Slurm: `node[01-16,20]`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product

from tnt_launch.errors import LaunchError

MAX_HOSTS_OF_A_NAME = 65_536

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18}))?", re.ASCII)
MAX_RANKS_PER_NODE = 256

_FORMS = "NAME, NAME slots=N or NAME:N, where NAME may be user@name, node[01-16,20] or [IPv6]"
_SLOTS = re.compile(r"(?P<name>\S+?)(?:\s+slots\s*=\s*|:)(?P<slots>[+-]?[0-9]{1,18})")
_COMMAS_BETWEEN_HOSTS = re.compile(r",(?![^\[\]]*\])")
# Not with a dash in front, which ssh would take for an option.
_USER = r"[^\W-][\w.\\+$-]*"
_NAME = re.compile(rf"(?:{_USER}@)?[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ADDRESS = "[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?"
_IPV6 = re.compile(rf"(?P<user>(?:{_USER}@)?)(?:(?P<bare>{_ADDRESS})|\[(?P<quoted>{_ADDRESS})\])")


@dataclass(frozen=True)
class _Range:
    numbers: range
    digits: int  # at least

    def texts(self) -> list[str]:
        return [f"{number:0{self.digits}}" for number in self.numbers]


def expand_ranges(name: str) -> list[str]:
    """Return the hosts for which a name stands; none if it is malformed, or too many. Pure."""
    # The grammar is that of `scontrol show hostnames`, which allows brackets only at the end. All
    # numbers of a range have at least the digits of its first one. With several pairs of brackets
    # the last varies fastest.
    texts, lists = _BRACKETS.split(name)[::2], _BRACKETS.split(name)[1::2]
    if any(mark in text for text in texts for mark in "[],"):
        return []
    ranges = [[_read_range(item) for item in each.split(",")] for each in lists]
    if any(not each.numbers for each in chain.from_iterable(ranges)):
        return []
    if math.prod(sum(len(r.numbers) for r in each) for each in ranges) > MAX_HOSTS_OF_A_NAME:
        return []
    numbers = [list(chain.from_iterable(r.texts() for r in each)) for each in ranges]
    parts = [texts[:1]]
    for each, text in zip(numbers, texts[1:], strict=True):
        parts.append([number + text for number in each])
    return ["".join(each) for each in product(*parts)]


def _read_range(text: str) -> _Range:
    """Return the range that a text stands for, an empty one if it is malformed."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return _Range(range(0), 0)
    first, last = int(found["first"]), int(found["last"] or found["first"])
    return _Range(range(first, last + 1), len(found["first"]))


@dataclass(frozen=True)
class HostSlots:
    """A host on which ranks are to run."""

    name: str  # as ssh takes it, with `user@` if given; IPv6 without brackets
    slots: int | None = None  # the most ranks on it, if anything was said

    @property
    def user(self) -> str:
        """The user to log in as, empty if none was given."""
        return self.name.rpartition("@")[0]

    @property
    def host(self) -> str:
        """The name or address alone."""
        return self.name.rpartition("@")[2]


def read_hostfile(path: str) -> tuple[HostSlots, ...]:
    """Read a host file; see `parse_hostfile`. Local."""
    if os.path.isdir(path):
        raise LaunchError(f"the host file {path!r} is a directory. Name a file.")
    text = read_user_file(path, f"the host file {path!r}")
    return parse_hostfile(text, path)


def read_user_file(path: str, what: str, newline: str | None = None) -> str:
    """Return the content of a file; it may be a pipe, as of `<(command)`. Local."""
    try:
        with open(path, encoding="utf-8-sig", newline=newline) as file:
            return file.read()
    except UnicodeDecodeError:
        raise LaunchError(f"{what} is not text in UTF-8.") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = error.strerror if isinstance(error, OSError) else error
        raise LaunchError(f"{what} cannot be read: {reason}.") from None


def parse_hostfile(text: str, path: str) -> tuple[HostSlots, ...]:
    """Read the lines of a host file, in their order, hosts named twice included. Pure."""
    found: list[HostSlots] = []
    for number, line in enumerate(text.split("\n"), start=1):
        item = line.partition("#")[0].strip()
        if item:
            found += _parse_item(item, f"line {number} of the host file {path!r}")
    if not found:
        raise LaunchError(f"the host file {path!r} names no host. Write one on each line: {_FORMS}")
    return tuple(found)


def parse_host_list(text: str) -> tuple[HostSlots, ...]:
    """Read a list as `-H` takes it, `a:2,b:2`. Pure."""
    found: list[HostSlots] = []
    for item in _COMMAS_BETWEEN_HOSTS.split(text):
        found += _parse_item(item.strip(), f"-H {text!r}")
    return tuple(found)


def split_host_list(text: str) -> list[str]:
    """Return the hosts of a list without slots, `n[1-2],m1`; none if it is malformed. Pure."""
    found = [_expand(item) for item in _COMMAS_BETWEEN_HOSTS.split(text)]
    return list(chain.from_iterable(found)) if all(found) else []


def merge_hosts(entries: Iterable[HostSlots]) -> tuple[tuple[HostSlots, ...], tuple[str, ...]]:
    """Let every host appear once, where it was first named; return remarks for DEBUG too. Pure."""
    # Slots of a host that is named again are added up, as mpirun does; an entry without slots then
    # says nothing new.
    merged: dict[str, HostSlots] = {}
    remarks: list[str] = []
    for entry in entries:
        key = entry.host.lower()
        known = merged.setdefault(key, entry)
        if known is entry:
            continue
        if entry.user != known.user:
            raise LaunchError(
                f"the host {entry.host!r} is named as {known.name!r} and as {entry.name!r}. Write "
                f"it in one way."
            )
        if entry.slots is None:
            remarks.append(f"the host {entry.name!r} is named again: ignored")
            continue
        total = (known.slots or 0) + entry.slots
        _check_slots(total, f"the slots of {entry.name!r}, named several times,")
        merged[key] = HostSlots(known.name, total)
    return tuple(merged.values()), tuple(remarks)


def _parse_item(item: str, where: str) -> Iterator[HostSlots]:
    found = None if _read_ipv6(item) else _SLOTS.fullmatch(item)
    name, slots = (item, None) if found is None else (found["name"], int(found["slots"]))
    names = _expand(name)
    if not names:
        raise LaunchError(f"{where} is malformed: {item!r} is not one of {_FORMS}.")
    if slots is not None:
        _check_slots(slots, f"{where}: the slots of {name!r}")
    for host in names:
        yield HostSlots(host, slots)


def _check_slots(slots: int, what: str) -> None:
    if not 1 <= slots <= MAX_RANKS_PER_NODE:
        raise LaunchError(f"{what} must be between 1 and {MAX_RANKS_PER_NODE}. Received: {slots}.")


def _expand(name: str) -> list[str]:
    """Return the hosts for which a name stands, none if it is malformed."""
    address = _read_ipv6(name)
    if address:
        return [address]
    names = expand_ranges(name)
    return names if all(map(_NAME.fullmatch, names)) else []


def _read_ipv6(text: str) -> str:
    """Return an IPv6 address without its brackets, with `user@` if given; empty if it is none."""
    found = _IPV6.fullmatch(text)
    if found is None:
        return ""
    import ipaddress  # rarely needed

    address: str = found["bare"] or found["quoted"]
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return ""
    return f"{found['user']}{address}"
