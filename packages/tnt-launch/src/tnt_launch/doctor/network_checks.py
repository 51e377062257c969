"""The checks of several hosts: whether they are reached, are alike, and how fast they talk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tnt_launch.doctor.host_checks import ENGINES, PARTS, library_text
from tnt_launch.doctor.report import Finding
from tnt_launch.numbers import rate_text, seconds_text
from tnt_launch.planning.addresses import OwnAddress

_LARGE_DIFFERENCE_S = 1.0
_SLOW = 0.25
_NEED_TO_BE_EQUAL = (*PARTS, "tensorflow", "keras", "libucx-cu12")


def check_reached(
    name: str,
    version: str,
    clock_s: float | None,
    interface: Sequence[OwnAddress],
    address: str,
    way: str,
) -> Finding:
    """Say how a host was reached; without `clock_s`, which is ahead, it is this one. Pure."""
    through = "this host" if clock_s is None else f"reached through {way}"
    parts = [f"{through}, tnt-launch {version or '(not installed)'}"]
    if address:
        names = [own.interface for own in interface if own.address == address]
        parts.append(f"address {address}{f' ({names[0]})' if names else ''}")
    if clock_s is not None:
        parts.append(f"clock {clock_s * 1e3:+.1f} ms")
    if clock_s is not None and abs(clock_s) > _LARGE_DIFFERENCE_S:
        text = ", ".join(parts)
        remedy = (
            "Times in logs and of files disagree: synchronise the clocks of all hosts with NTP "
            "(`chronyc tracking`, `timedatectl`)."
        )
        return Finding("note", name, text, remedy)
    return Finding("ok", name, ", ".join(parts))


def check_unreached(name: str, why: str) -> Finding:
    """Say that a host cannot take part. Pure."""
    remedy = (
        f"Try `ssh {name} true`, which must end without a prompt, and install the same version of "
        "tarantella there, at the same path."
    )
    return Finding("problem", name, why, remedy)


def check_equality(installed: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Say where hosts have other versions than the first. Pure."""
    if len(installed) < 2:
        return
    (first, versions), *others = installed.items()
    has_difference = False
    for package, version in versions.items():
        unlike = [f"{name} {own[package]}" for name, own in others if own[package] != version]
        if unlike:
            has_difference = True
            text = f"{package}: {first} {version}, {', '.join(unlike)}"
            remedy = f"Install the same version of {package} on all hosts."
            yield Finding(
                "problem" if package in _NEED_TO_BE_EQUAL else "note", "versions", text, remedy
            )
    if not has_difference:
        yield Finding("ok", "versions", f"the same packages on {len(installed)} hosts")


def check_network_engine(facts: Mapping[str, Any]) -> Finding:
    """Say through which engine the hosts talk. Pure."""
    text = f"{ENGINES[facts['engine']]} {library_text(facts).removesuffix(', ')}"
    return Finding("ok", "engine", text)


def check_link(names: Sequence[str], facts: Mapping[str, Any], fastest: float) -> Finding:
    """Say how fast two hosts talk. Pure."""
    one, other = (names[number] for number in facts["pair"])
    rate = facts["bytes_per_s"]
    text = f"{one} to {other}: {seconds_text(facts['latency_s'])}, {rate_text(rate)}"
    if rate >= _SLOW * fastest:
        return Finding("ok", "network", text)
    text = f"{text}; others have {rate_text(fastest)}"
    remedy = (
        "One slow link slows all down: check the cable, the switch and the interface of these "
        "hosts, or leave one host out."
    )
    return Finding("note", "network", text, remedy)


def check_unmeasured(why: str) -> Finding:
    """Say that the hosts cannot talk. Pure."""
    remedy = (
        "Check that the hosts reach each other at the addresses above, without a firewall in "
        "between; or name another network with --interface. Install the same GPI-2 or UCX on all "
        "hosts."
    )
    return Finding("problem", "network", why, remedy)
