"""What `tarantella verify` shows: a table of the runs, where they differ, and why. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tnt_launch.numbers import counted
from tnt_launch.verify.causes import Cause
from tnt_launch.verify.comparison import hash_of
from tnt_launch.verify.hash_file import Record
from tnt_launch.verify.judgement import Verdict
from tnt_launch.verify.runs import Run
from tnt_launch.verify.within_serial import largest

_ERROR = re.compile(r"[\w.]*(Error|Exception|Interrupt)\b")


@dataclass(frozen=True)
class Done:
    """A run that is over."""

    run: Run
    record: Record
    seconds: float

    def text(self) -> str:
        """Name the run."""
        return f"run {self.run.number} ({counted(self.record.size, 'rank')})"


def table_of_bits(runs: Sequence[Done], verdicts: Sequence[Verdict]) -> str:
    """Return a line for each run: what it is, a hash of it, and whether it is that of run 1."""
    rows = [
        [*_begin(done), hash_of(done.record), _word(verdict.cause, "same", "different")]
        for done, verdict in zip(runs, verdicts, strict=True)
    ]
    rows[0][-1] = ""
    return _table(["run", "ranks", "lanes", "steps", "seconds", "hash", ""], rows)


def table_of_rounding(runs: Sequence[Done], verdicts: Sequence[Verdict]) -> str:
    """Return a line for each run: what it is, and its largest ratio of what it may differ."""
    rows = [
        [*_begin(done), _ratio(verdict), done.run.role or _word(verdict.cause, "within", "outside")]
        for done, verdict in zip(runs, verdicts, strict=True)
    ]
    return _table(["run", "ranks", "lanes", "steps", "seconds", "largest ratio", ""], rows)


def details_of_bits(done: Done, verdict: Verdict) -> Iterator[str]:
    """Yield where a run differs first, and the likely cause with its remedy."""
    if verdict.difference is not None and verdict.cause is not None:
        yield f"{done.text()} differs from run 1 first {verdict.difference.text()}"
        yield from _cause(verdict.cause)


def details_of_rounding(done: Done, verdict: Verdict) -> Iterator[str]:
    """Yield where a run is first outside of what rounding explains, and the likely cause."""
    if verdict.cause is None:
        return
    outside = [each for each in verdict.deviations if each.ratio > 1]
    if verdict.difference is not None:
        yield f"{done.text()} differs from run 1 first {verdict.difference.text()}"
    elif outside:
        first, more = outside[0], len(outside) - 1
        others = f"; and {counted(more, 'other number')}" if more else ""
        yield (
            f"{done.text()}: {first.where} is {first.other:.8g}, serially {first.serial:.8g}, "
            f"{first.ratio:.3g} times what rounding explains{others}"
        )
    yield from _cause(verdict.cause)


def processor_of(record: Record) -> str:
    """Say on what processor the bits hold."""
    instructions = " ".join(record.header.get("instructions", ()))
    processor = record.header.get("processor", "unknown")
    return (
        f"Processor: {processor}{f' ({instructions})' if instructions else ''}. The bits hold "
        "between equal processors only."
    )


def error_line(log: Sequence[str]) -> str:
    """Return the last line of an output that tells of an error, or its last line."""
    lines = [line.strip() for line in log if line.strip()]
    errors = [line for line in lines if _ERROR.match(line) or line.startswith("tarantella: error")]
    return [*[""], *lines[-1:], *errors[-1:]][-1]


def _cause(cause: Cause) -> Iterator[str]:
    yield f"  likely cause: {cause.text}"
    yield f"  -> {cause.remedy}"


def _begin(done: Done) -> list[str]:
    record = done.record
    lanes = "-" if record.lanes is None else str(record.lanes)
    numbers = [str(done.run.number), str(record.size), lanes, str(len(record.steps))]
    return [*numbers, f"{done.seconds:.1f}"]


def _word(cause: Cause | None, well: str, ill: str) -> str:
    return well if cause is None else ill


def _ratio(verdict: Verdict) -> str:
    return f"{largest(verdict.deviations):.3g}" if verdict.deviations else "-"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns; all but the last are flush right."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    lines = []
    for row in (titles, *rows):
        words = [word.rjust(width) for word, width in zip(row[:-1], widths, strict=False)]
        lines.append("  ".join([*words, row[-1]]).rstrip())
    return "".join(f"{line}\n" for line in lines)
