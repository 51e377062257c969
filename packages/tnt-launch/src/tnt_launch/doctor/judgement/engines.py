"""Findings about shared memory, GPI-2 and UCX as ranks talk through them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tnt_launch.doctor.facts import Finding
from tnt_launch.numbers import rate_text, seconds_text

# Words for the engines that `TNT_TRANSPORT` names.
NAMES = {"shm": "shared memory", "gpi2": "GPI-2", "ucx": "UCX"}

_REMEDIES = {
    "shm": "Look at the lines on shared memory and limits, and at the message.",
    "gpi2": "Look at the message; `tarantella -n 2 -x TNT_TRANSPORT=gpi2 -- SCRIPT` shows more.",
    "ucx": "Look at the message; `tarantella -n 2 -x TNT_TRANSPORT=ucx -- SCRIPT` shows more.",
}
_HOW_TO_GET = {
    "gpi2": "Jobs on several hosts need GPI-2 or UCX: build GPI-2 as its README says and set "
    "TNT_GPI2_LIBRARY to the path of its libGPI2.so.",
    "ucx": 'Jobs on several hosts need GPI-2 or UCX: run `pip install "tarantella[cluster]"`, or '
    "set TNT_UCX_LIBRARY to the path of a libucp.so.0.",
}


def judge_engine(facts: Mapping[str, Any]) -> Finding:
    """Say what came of a sum between processes through an engine. Pure."""
    engine = facts["engine"]
    check = check_of(engine)
    if "why" in facts:
        # How tnt-comm begins if it has looked everywhere, and nobody has named a library.
        if facts["why"].startswith(f"No {NAMES[engine]} library was found"):
            return Finding("note", check, "not found", _HOW_TO_GET[engine])
        return judge_failed_engine(engine, facts["why"])
    if not facts["is_right"]:
        text = f"the sum of {facts['size']} processes is wrong"
        remedy = "Do not use it, and report what `tarantella doctor` shows."
        return Finding("problem", check, text, remedy)
    text = (
        f"{library_text(facts['library'])}sum of {facts['size']} processes: "
        f"{seconds_text(facts['latency_s'])}, {rate_text(facts['bytes_per_s'])}"
    )
    return Finding("ok", check, text)


def judge_failed_engine(engine: str, why: str) -> Finding:
    """Say that the test of an engine has failed. Pure."""
    return Finding("problem", check_of(engine), why, _REMEDIES[engine])


def check_of(engine: str) -> str:
    """Return the first column of an engine's line. Pure."""
    return "sum in memory" if engine == "shm" else NAMES[engine]


def library_text(library: Mapping[str, Any] | None) -> str:
    """Say which library was found where, with a comma behind it; nothing for none. Pure."""
    if library is None:
        return ""
    network = f" for {library['network']}" if library["network"] else ""
    return f"{library['version']}{network}, {library['path']}, "
