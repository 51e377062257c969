"""The file of `TNT_STEP_HASHES`: lines of JSON that rank 0 of a run has written."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tnt_launch.errors import LaunchError

FORMAT = 1


@dataclass(frozen=True)
class Result:
    """What a step has returned under a name."""

    hash: str
    value: float | None = None  # of numbers, not of arrays


@dataclass(frozen=True)
class Step:
    """A step of a run."""

    number: int  # from 1, of all steps of the run
    kind: str  # such as `train_step`
    model: str
    results: Mapping[str, Result] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)  # hashes that have changed by it


@dataclass(frozen=True)
class Note:
    """What may explain a difference."""

    about: str  # one of rank, draw, map, seed, python, whole
    text: str


@dataclass(frozen=True)
class Record:
    """What a run has written, of each step what its last start has."""

    header: Mapping[str, Any]
    steps: Mapping[int, Step]  # by their numbers, ascending
    notes: tuple[Note, ...] = ()
    # mean and root mean square of each variable at the end; `None` if the run has not reached it
    norms: Mapping[str, tuple[float, float]] | None = None

    @property
    def size(self) -> int:
        """The number of ranks."""
        return int(self.header.get("size", 1))

    @property
    def lanes(self) -> int | None:
        """The number of lanes, `None` if none was given."""
        lanes = self.header.get("lanes")
        return None if lanes is None else int(lanes)

    @property
    def has_ended(self) -> bool:
        """Whether the script has come to its end."""
        return self.norms is not None


def read_hash_file(path: str) -> Record | None:
    """Return what a run has written, `None` if nothing. Local."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_hash_file(file, path)
    except FileNotFoundError:
        return None


def parse_hash_file(lines: Iterable[str], path: str) -> Record | None:
    """Return what lines say; `path` is for errors. Pure."""
    header: Mapping[str, Any] | None = None
    steps: dict[int, Step] = {}
    notes: list[Note] = []
    norms: dict[str, tuple[float, float]] | None = None
    for line in lines:
        values: Mapping[str, Any] = {}
        with contextlib.suppress(ValueError):  # a run was killed while it wrote the line
            values = json.loads(line)
        kind = values.get("kind")
        if kind == "run":
            header, norms = _checked(values, path), None
        elif kind == "step":
            steps[values["number"]] = _step(values)
        elif kind == "note":
            notes.append(Note(values["about"], values["text"]))
        elif kind == "end":
            norms = {name: (mean, rms) for name, (mean, rms) in values["norms"].items()}
    if header is None:
        return None
    return Record(header, dict(sorted(steps.items())), tuple(dict.fromkeys(notes)), norms)


def _checked(header: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    if header.get("format") != FORMAT:
        raise LaunchError(
            f"{path} has format {header.get('format')!r} of hashes, and this launcher reads "
            f"{FORMAT}: tnt-keras and tnt-launch are of different versions. Install the same."
        )
    return header


def _step(values: Mapping[str, Any]) -> Step:
    results = {
        name: Result(result["hash"], result.get("value"))
        for name, result in values["results"].items()
    }
    return Step(values["number"], values["step"], values["model"], results, values["variables"])
