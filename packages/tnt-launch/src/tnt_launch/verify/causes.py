"""Why runs differ, as far as what they have written tells. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tnt_launch.numbers import counted, listed
from tnt_launch.planning.lanes import valid_sizes
from tnt_launch.verify.comparison import Difference
from tnt_launch.verify.hash_file import Record
from tnt_launch.verify.within_serial import unit_of

_MOST_NOTES = 5
# Fields of the header that must be equal, and what they are.
_MACHINE = (
    ("processor", "processors"),
    ("instructions", "instruction sets"),
    ("tensorflow", "versions of TensorFlow"),
    ("keras", "versions of Keras"),
    ("python", "versions of Python"),
    ("onednn", "values of TF_ENABLE_ONEDNN_OPTS"),
)
_NOTES = {
    "rank": (
        "code looks at the rank or at the number of ranks",
        "Let all ranks run the same code, whatever their number: keep what depends on the rank out "
        "of data, weights, losses and metrics.",
    ),
    "map": (
        "a function of the dataset gives other elements in each run",
        "Let it depend on its element alone, and draw numbers with a seed.",
    ),
    "draw": (
        "numbers are drawn without a seed",
        "Give each draw a seed, or set one for all by keras.utils.set_random_seed(1) at the top of "
        "the script.",
    ),
    "seed": (
        "seeds differ from run to run",
        "Set them once, to numbers that do not depend on rank, time or process.",
    ),
    "python": (
        "Python code computes a part of the step or of the data",
        "Write it with operations of TensorFlow, or let it give the same in each run.",
    ),
    "whole": (
        "a part of the step is computed on the whole batch, not lane by lane",
        "Write it so that it can be cut along the batch, or leave it out to see whether it is the "
        "cause.",
    ),
}
_OF_SCRIPT = ("draw", "map", "seed", "python")  # by which a script differs from itself
_OF_RANKS = ("rank", "map", "draw", "python", "whole")
_TO_REPORT = (
    "Give --keep DIR, and report it with the files of DIR and the script, as small as possible."
)


@dataclass(frozen=True)
class Cause:
    """A likely cause of a difference, and what to do about it."""

    text: str
    remedy: str


NO_HASHES = Cause(
    "it has written no hashes: rank 0 took no step by Tarantella, or is not on this host",
    "Let the script train a tnt.Model or call a tnt.function in the processes that tarantella "
    "starts, and name this host first.",
)

NO_NUMBERS = Cause(
    "there is nothing to compare: neither a loss or metric nor a variable is known of both",
    "Let a step return a loss or a metric, and let the script come to its end.",
)


def cause_of_repeat(first: Record, again: Record, difference: Difference) -> Cause:
    """Return why two runs on the same number of ranks differ."""
    if difference.is_other_step or _ended_early(first, again):
        return _steps_differ(first, again, difference)
    text = "two runs on one number of ranks differ: the script is not reproducible by itself"
    return _not_reproducible(text, first, again)


def likely_cause(
    first: Record, other: Record, difference: Difference, sizes: Sequence[int]
) -> Cause:
    """Return why a run differs from the first one; `sizes` are the numbers of ranks of all."""
    if difference.is_other_step or _ended_early(first, other):
        return _steps_differ(first, other, difference)
    return next(_candidates(first, other, difference, sizes))


def cause_outside(serial: Record, other: Record, difference: Difference) -> Cause:
    """Return why a run differs from the serial one by more than rounding does."""
    if difference.is_other_step or _ended_early(serial, other):
        return _steps_differ(serial, other, difference)
    return next(_tail(serial, other, difference))


def cause_of_moved(serial: Record, moved: Record) -> Cause:
    """Return why rounding cannot be measured: the serial run differs from itself by more."""
    text = "two serial runs differ by more than rounding: the script is not reproducible by itself"
    return _not_reproducible(text, serial, moved)


def _candidates(
    first: Record, other: Record, difference: Difference, sizes: Sequence[int]
) -> Iterator[Cause]:
    if first.lanes != other.lanes or (other.lanes is None and other.size > 1):
        yield _no_lanes(sizes)  # of which other threads are a consequence
    if first.header.get("threads") != other.header.get("threads"):
        yield Cause(
            f"threads of an operation differ: {_of(first, 'threads')} and {_of(other, 'threads')}",
            "Set TNT_NUM_THREADS to one number for all runs, and no TF_NUM_INTRAOP_THREADS.",
        )
    for name, what in _MACHINE:
        if first.header.get(name) != other.header.get(name):
            yield Cause(
                f"{what} differ: {_of(first, name)} and {_of(other, name)}",
                "Bits are the same between equal processors and versions only: run on equal hosts.",
            )
    if not other.header.get("deterministic", True):
        yield Cause(
            "operations of TensorFlow are not deterministic",
            "Call tf.config.experimental.enable_op_determinism() at the top of the script, or give "
            "--lanes, which does it.",
        )
    yield from _tail(first, other, difference)


def _tail(first: Record, other: Record, difference: Difference) -> Iterator[Cause]:
    yield from _noted(_OF_RANKS, other)
    if difference.number == min(first.steps) and _began_otherwise(first, other):
        yield Cause(
            "they differ from the first step on: they began with other weights, or other samples",
            "Set one seed for all ranks (keras.utils.set_random_seed), and look for what an "
            "earlier run has left in this folder, such as a checkpoint.",
        )
    yield Cause("no cause found: this may be a fault of Tarantella", _TO_REPORT)


def _began_otherwise(first: Record, other: Record) -> bool:
    """Return whether the first results differ by more than rounding, if they are numbers."""
    number = min(first.steps)
    one, two = first.steps[number].results, other.steps[number].results
    pairs = [(one[name].value, two[name].value) for name in one if name in two]
    unit = unit_of(str(first.header.get("compute_dtype", "")))
    numbers = [(a, b) for a, b in pairs if a is not None and b is not None]
    return not numbers or any(abs(a - b) > unit * max(abs(a), abs(b)) for a, b in numbers)


def _ended_early(first: Record, other: Record) -> bool:
    return first.has_ended and not other.has_ended


def _steps_differ(first: Record, other: Record, difference: Difference) -> Cause:
    early = ", and did not come to its end" if _ended_early(first, other) else ""
    if len(first.steps) == len(other.steps) and not early:
        text = f"it takes other steps: {difference.text()}"
    else:
        text = (
            f"it took {counted(len(other.steps), 'step')}, and run 1 took {len(first.steps)}{early}"
        )
    return Cause(
        text,
        "Let the number of steps depend neither on ranks nor on time, nor on what an earlier run "
        "has left in this folder; and let the script end by itself.",
    )


def _not_reproducible(text: str, first: Record, again: Record) -> Cause:
    if not again.header.get("seeded", True):
        return Cause(
            f"{text}, and sets no seed",
            "Call keras.utils.set_random_seed(1) at the top of the script, or give --lanes, which "
            "sets one.",
        )
    for cause in _noted(_OF_SCRIPT, again):
        return Cause(f"{text}. {_capital(cause.text)}", cause.remedy)
    if not again.header.get("deterministic", True):
        return Cause(
            f"{text}. Operations of TensorFlow are not deterministic",
            "Call tf.config.experimental.enable_op_determinism() at the top of the script, or give "
            "--lanes, which does it.",
        )
    return Cause(
        text,
        "Look for numbers that are drawn without a seed, for time, for sets and files without an "
        "order, and for what an earlier run has left in this folder.",
    )


def _noted(kinds: Sequence[str], record: Record) -> Iterator[Cause]:
    for about in kinds:
        texts = [note.text for note in record.notes if note.about == about]
        if texts:
            text, remedy = _NOTES[about]
            yield Cause(f"{text}: {listed(texts, _MOST_NOTES)}", remedy)


def _no_lanes(sizes: Sequence[int]) -> Cause:
    most = max(sizes)
    fits = set(sizes) <= set(valid_sizes(most))
    lanes = f"--lanes {most}" if fits else "--lanes V, with V lanes that all of them can share"
    return Cause(
        "no lanes were given, so that sums are formed in another order on other numbers of ranks",
        f"Give {lanes}; or compare what is the same without lanes, up to rounding: --within "
        "serial.",
    )


def _of(record: Record, name: str) -> str:
    value = record.header.get(name)
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "TensorFlow's choice" if value is None and name == "threads" else str(value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
