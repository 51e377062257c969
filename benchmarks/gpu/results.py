"""How the programs of this benchmark are told their sizes, and where each puts its result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

MIB, PAGE = 1 << 20, 4096


@dataclass(frozen=True)
class Options:
    """Sizes of all programs, and how many of them there are."""

    ranks: Sequence[int] = (2, 3, 4)
    moments: Sequence[str] = ("half", "all", "later")  # see kill.py
    copy_bytes: int = 24959 * PAGE  # 102 MB, as many as ResNet-50's gradients
    chain_bytes: int = 256 * MIB  # of one copy of a chain that has to take long
    calls: int = 1000
    rounds: int = 11
    model: str = "resnet50"
    num_patterns: int = 1 << 18  # elements of each dtype whose sums are compared
    kill_bytes: int = 256 * MIB


SMALL = Options(
    ranks=(2,),
    moments=("all",),
    copy_bytes=MIB,
    chain_bytes=4 * MIB,
    calls=20,
    rounds=2,
    model="small",
    num_patterns=1 << 14,
    kill_bytes=MIB,
)
"""Those of a test, which says nothing about time."""


class Arguments(NamedTuple):
    """What a program is called with."""

    folder: Path
    options: Options
    others: list[str]


def arguments_for(folder: Path, options: Options, *others: object) -> list[str]:
    """The words of a command line. Pure."""
    return [str(folder), json.dumps(asdict(options)), *map(str, others)]


def read_arguments() -> Arguments:
    """Those of this process."""
    folder, options, *others = sys.argv[1:]
    return Arguments(Path(folder), Options(**json.loads(options)), others)


def write_result(folder: Path, rank: int, result: dict[str, Any]) -> None:
    """Write what this process has found, whole or not at all: it may be killed."""
    file = folder / f"rank-{rank}.json"
    part = file.with_suffix(".part")
    part.write_text(json.dumps(result), encoding="utf-8")
    part.replace(file)


def write_answer(answer: Callable[[Options], dict[str, Any]], rank: int = 0) -> None:
    """Find and write what this process is asked, with the sizes that it is called with."""
    arguments = read_arguments()
    write_result(arguments.folder, rank, answer(arguments.options))


def read_results(folder: Path) -> dict[int, dict[str, Any]]:
    """Of the processes that have found something, by rank."""
    found = {int(file.stem.partition("-")[2]): file for file in folder.glob("rank-*.json")}
    return {rank: json.loads(found[rank].read_text(encoding="utf-8")) for rank in sorted(found)}
