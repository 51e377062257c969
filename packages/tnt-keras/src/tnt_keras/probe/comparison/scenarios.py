"""The states and samples in which a step on all ranks is compared with the serial one.

A training or test step is compared

    - in the present state, on the first 2n + 1 samples, with the parts that ranks have in training;
    - after a serial step, on as many samples of the first batch as are cheap, all of them if
      possible, with parts of neighbouring samples: what is largest or nearest among all samples
      may lie in one part by chance, but hardly in both, and some steps do with many samples what
      they do not with few;
    - in the present state, on the first samples with large numbers scaled down, if there are any;
    - after a serial step, on the first samples, half of them with other values (`other_values`);
    - after a serial step, on one sample for each rank, as in a short last batch;
    - if the step counts steps, as it will be after many, and where a scalar that it moves by a
      fraction in each step has come to a half and to one;
    - if it changes the gradients of its tape, as it would be with much larger ones.

A prediction is compared on the same samples, all in the present state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tnt_comm import CommError, MismatchError
from tnt_keras.collectives.messages import allgather, allreduce
from tnt_keras.probe.comparison.combination import Share
from tnt_keras.probe.runs.reference import Reference
from tnt_keras.probe.runs.step_run import StepRunner
from tnt_keras.probe.runs.step_watch import Values
from tnt_keras.probe.runs.tape_gradients import AMPLIFICATION
from tnt_keras.probe.samples.first_samples import Samples
from tnt_keras.probe.samples.other_values import with_other_values, with_small_numbers
from tnt_keras.probe.samples.users_code import UsersCode
from tnt_keras.process.rank import get_rank, get_size

_MOST_BYTES = 2**23
"""Of samples and outputs of layers in a comparison of more than the first few samples."""

_MOST_SAMPLES = 4096

_FIRST_STEPS = (2, 3, 4, 5, 6, 7)
"""Looked at where that is cheap: a step may do something in one of them."""

_LATE_STEPS = (11_088_000 - 1, 11_088_000)
"""So late, whatever a step begins to do after some steps has begun.

The second number is a multiple of 2 to 12, 16 and 100, the first one less: what a step does each
k-th time it does in one of them. float32 still counts them by ones.
"""

_CHEAP_BYTES = 2**20

_OTHER_CALLS = "it fails on another rank, or does something else there"

Positions = npt.NDArray[np.int64]
_T = TypeVar("_T")


class UnprovableError(Exception):
    """The step could not be run on some samples apart from training; says why."""


class UnprovablePartError(UnprovableError):
    """The step could be run on all of some samples, but not on a part of them."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One state and some samples, with the serial run from there.

    Attributes:
        reference: The serial run.
        samples: That it got.
        positions: Of this rank's samples, as many as it has in training.
        is_made_up: Whether the step may have no use for this state or these samples.
        has_other_values: Whether some of the samples are not those of the data.
    """

    reference: Reference
    samples: Samples
    positions: Positions
    is_made_up: bool = False
    has_other_values: bool = False

    @property
    def share(self) -> Share:
        """The part of the samples that this rank has."""
        return Share(len(self.samples.rows), self.samples.num_rows)


def make_scenarios(
    runner: StepRunner,
    few: Samples,
    more: Callable[[int], Samples | None],
    *,
    is_prediction: bool,
    users: UsersCode,
) -> list[Scenario]:
    """Run the serial step in all scenarios, eagerly if it allows: that is ready sooner. Collective.

    Args:
        runner: Runs the step.
        few: The first 2n + 1 samples.
        more: Returns the first samples of the batch, at most so many. Collective.
        is_prediction: Whether the step changes nothing.
        users: What code of the user sees of the samples.

    Raises:
        UnprovableError: On all ranks, if the step cannot be run on one of them.
    """
    make = functools.partial(_scenarios, runner, few, more, is_prediction, users)
    try:
        return list(make())
    except UnprovableError:
        runner.traces = True
        return list(make())


def _scenarios(
    runner: StepRunner,
    few: Samples,
    more: Callable[[int], Samples | None],
    is_prediction: bool,
    users: UsersCode,
) -> Iterator[Scenario]:
    first = _serial(runner, few)
    yield Scenario(first, few, few.rows)
    before = None if is_prediction else first
    many = _as_many_as_are_cheap(few, more, first.num_bytes)
    second = _serial(runner, many, before)
    yield Scenario(second, many, _neighbours(many))
    if first.changes_gradients:
        amplified = _serial(runner, few, amplification=AMPLIFICATION)
        yield Scenario(amplified, few, _neighbours(few))
    yield from _made_up(runner, few, before, users, [*_later(first), *_faded_in(first, second)])


def _made_up(
    runner: StepRunner,
    few: Samples,
    before: Reference | None,
    users: UsersCode,
    later: Sequence[Values],
) -> Iterator[Scenario]:
    """Yield scenarios for whose states and samples a step may have no use: it may fail there."""
    make = functools.partial(Scenario, positions=_neighbours(few), is_made_up=True)
    small = with_small_numbers(few)
    if small is not None:
        with contextlib.suppress(UnprovableError):
            yield make(_serial(runner, small), small, has_other_values=True)
    if users.sees_inputs and few.num_rows > get_size():
        one_each = few.first(get_size())
        with contextlib.suppress(UnprovableError):
            yield make(_serial(runner, one_each, before), one_each, positions=one_each.rows)
    for changed in later:
        with contextlib.suppress(UnprovableError):
            yield make(_serial(runner, few, before, changed), few)
    for other in with_other_values(few, users):
        with contextlib.suppress(UnprovableError):
            reference = _serial(runner, other, before)
            if reference.computes_numbers():
                yield make(reference, other, has_other_values=True)


def _serial(runner: StepRunner, samples: Samples, *state: Any, **options: Any) -> Reference:
    """Run the serial step as `StepRunner.serial` does. Collective.

    Raises:
        UnprovableError: On all ranks, if it fails on one.
    """
    run = functools.partial(runner.serial, samples.all_rows, samples.num_rows)
    return on_all_ranks(lambda: run(*state, **options))


def _as_many_as_are_cheap(
    few: Samples, more: Callable[[int], Samples | None], num_bytes: int
) -> Samples:
    """Return as many of the first samples as may be computed with. Collective.

    Args:
        few: The first of them.
        more: Returns as many as one asks for.
        num_bytes: Of what a run with the few computes.
    """
    affordable = np.array([few.num_rows * _MOST_BYTES / max(num_bytes, 1)])
    num_samples = int(allreduce("proof of the step: samples", affordable, "min")[0])
    if num_samples <= few.num_rows:
        return few
    return more(min(num_samples, _MOST_SAMPLES)) or few


def _later(first: Reference) -> Iterator[Values]:
    """Yield what the counters of steps hold after some and after many."""
    if not first.counters:
        return
    some = _FIRST_STEPS if first.num_bytes <= _CHEAP_BYTES else ()
    for num_steps in (*some, *_LATE_STEPS):
        yield [
            (counter, tf.cast(min(num_steps, counter.dtype.max // 2), counter.dtype))
            for counter in first.counters  # an int8 does not count further
        ]


def _faded_in(first: Reference, second: Reference) -> Iterator[Values]:
    """Yield what scalars hold in the middle and at the end of fading in, by a little each step.

    They move by the same in two steps with different samples.
    """
    again = {id(variable): move for variable, move in second.scalar_moves}
    fading = [
        (variable, move)
        for variable, move in first.scalar_moves
        if 0 < abs(move) < 0.5 and math.isclose(again.get(id(variable), 0.0), move, rel_tol=1e-4)
    ]
    for end in (0.5, 1.0) if fading else ():
        yield [
            (variable, tf.cast(math.copysign(end, move), variable.dtype))
            for variable, move in fading
        ]


def _neighbours(samples: Samples) -> Positions:
    """Return as many positions for this rank, but of samples that follow each other. Collective."""
    message = len(samples.rows).to_bytes(8, "little")
    counts = [
        int.from_bytes(each, "little") for each in allgather("proof of the step: parts", message)
    ]
    first = sum(counts[: get_rank()])
    return np.arange(first, first + len(samples.rows))


def on_all_ranks(action: Callable[[], _T]) -> _T:
    """Return what an action gives that must succeed on every rank. Collective.

    Args:
        action: Is run on this rank.

    Raises:
        UnprovableError: On all ranks, if it fails on one; says where and why.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    result: Any = None
    cause: Exception | None = None
    message = ""
    try:
        result = action()
    except MismatchError as error:  # another rank has failed, while this one waited for it
        raise UnprovableError(_OTHER_CALLS) from error
    except CommError:
        raise
    except Exception as error:  # whatever a user's step raises
        cause, message = error, f"{type(error).__name__}: {error}"
    try:
        messages = allgather("proof of the step: errors", message.encode())
    except MismatchError as error:
        raise UnprovableError(message or _OTHER_CALLS) from (cause or error)
    for rank, text in enumerate(each.decode() for each in messages):
        if text:
            raise UnprovableError(f"on rank {rank} {text}") from cause
    return result
