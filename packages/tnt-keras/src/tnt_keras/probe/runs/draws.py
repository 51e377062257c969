"""Let a run over some rows of a batch draw the random numbers that were drawn for them among all.

No seed or generator of the user takes part: numbers come from the index of the call, and so are the
same on all ranks; `random` and `numpy.random` begin with a seed of ours in each run, whatever its
rows. Left alone are functions that are traced and the first values of variables, since what they
draw outlives the block, other threads, and random operations of `tf.raw_ops`.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.keras_hooks.private import replaced_variable_creation
from tnt_keras.keras_hooks.private_tensorflow import replaced_random_operations
from tnt_keras.probe.runs.stateless_draws import OPERATIONS, OWN_SEED, Draw, Shape

_UNKNOWN = -1


@dataclass
class _Recorded:
    """What one call drew.

    Attributes:
        draw: What was asked for.
        value: The numbers; with one row that stands for all, or as asked for.
        axis: Which axis the rows of the batch lie along, None if along none.
    """

    draw: Draw
    value: tf.Tensor
    axis: int | None = _UNKNOWN

    @property
    def has_one_row(self) -> bool:
        return tuple(self.value.shape) != self.draw.shape


class Draws:
    """The random numbers of a run over N rows.

    Attributes:
        unserved: What calls of the last replay asked for that the recorded run has nothing for.
            They got other numbers.
        python_generators: The global generators of Python and numpy that replays drew more or less
            numbers from than the recorded run. What they drew cannot be told by samples.
    """

    def __init__(self) -> None:
        self._recorded: list[_Recorded] = []
        self._num_rows = 0
        self.unserved: list[str] = []
        self.python_generators: set[str] = set()
        self._python_states: dict[str, bytes] = {}

    @contextlib.contextmanager
    def recording(self, num_rows: int) -> Iterator[None]:
        """Draw by the index of the call and keep the numbers, in place of those kept before. Local.

        Where the first dimension is larger than N, its rows are a function of those of the batch
        that cannot be known (views one after the other, steps of time, tokens without padding): all
        get the same numbers.

        Args:
            num_rows: N.
        """
        self._recorded, self._num_rows = [], num_rows
        self.python_generators = set()

        def record(index: int, draw: Draw) -> tf.Tensor:
            shape = draw.shape
            if draw.is_alike and shape and shape[0] > num_rows:
                shape = (1, *shape[1:])
            value = draw.numbers(index, shape)
            self._recorded.append(_Recorded(draw, value))
            return tf.broadcast_to(value, draw.shape)

        with _serving(record):
            yield
            self._python_states = _python_states()

    @contextlib.contextmanager
    def replaying(self, rows: np.ndarray) -> Iterator[None]:
        """Serve call by call what was recorded for these rows. Local.

        A draw whose shape has k m where the recorded one has k N gets of each of the m rows the k
        entries. A draw of the recorded shape gets all of it; if m = N, its first axis of size N is
        permuted, unless an earlier replay of m < N rows asked for that shape as well.

        Args:
            rows: (m), indices of rows of the recorded run.
        """
        self.unserved = []
        calls = 0

        def replay(index: int, draw: Draw) -> tf.Tensor:
            nonlocal calls
            calls = index + 1
            recorded = self._recorded[index] if index < len(self._recorded) else None
            served = self._serve(recorded, draw, rows) if recorded else None
            if served is not None:
                return served
            self.unserved.append(f"{draw.kind} {draw.shape}")
            return draw.numbers(index)

        with _serving(replay):
            begin = _python_states()
            yield
            for name, state in _python_states().items():
                # A generator of Keras that is made by a run takes its seed from them, once.
                if state not in (begin[name], self._python_states[name]):
                    self.python_generators.add(name)
        self.unserved += [f"{r.draw.kind} {r.draw.shape}" for r in self._recorded[calls:]]

    def _serve(self, recorded: _Recorded, draw: Draw, rows: np.ndarray) -> tf.Tensor | None:
        """Return the numbers of these rows, None if the shapes do not tell which they are."""
        if (draw.kind, len(draw.shape)) != (recorded.draw.kind, len(recorded.draw.shape)):
            return None
        axis = _axis_of_rows(recorded, draw.shape, self._num_rows, len(rows))
        if axis == _UNKNOWN:
            return None
        if len(rows) != self._num_rows:
            recorded.axis = axis
        value = recorded.value
        if axis is not None and not (axis == 0 and recorded.has_one_row):
            count = recorded.draw.shape[axis] // self._num_rows
            positions = rows[:, None] * count + np.arange(count)
            value = tf.gather(value, positions.ravel(), axis=axis)
        return tf.broadcast_to(value, draw.shape)


def _axis_of_rows(recorded: _Recorded, shape: Shape, num_rows: int, part: int) -> int | None:
    """Return along which axis the rows lie, None for none, `_UNKNOWN` if the shapes do not fit."""
    whole = recorded.draw.shape
    differing = [axis for axis in range(len(shape)) if shape[axis] != whole[axis]]
    if recorded.has_one_row and differing == [0]:
        return 0
    if not differing and part != num_rows:
        return None
    if not differing and recorded.axis != _UNKNOWN:
        return recorded.axis
    if not differing:
        return whole.index(num_rows) if num_rows in whole else None
    if len(differing) == 1:
        [axis] = differing
        if whole[axis] % num_rows == 0 and shape[axis] * num_rows == whole[axis] * part:
            return axis
    return _UNKNOWN


@contextlib.contextmanager
def _serving(serve: Callable[[int, Draw], tf.Tensor]) -> Iterator[None]:
    """Call `serve` with index and draw in place of each random operation in this thread."""
    calls = itertools.count()
    creating = 0

    def create_plainly(plain: Callable[..., None]) -> Callable[..., None]:
        def create(*args: Any, **kwargs: Any) -> None:
            nonlocal creating
            creating += 1
            try:
                plain(*args, **kwargs)
            finally:
                creating -= 1

        return create

    def replace(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(plain)
        operation = OPERATIONS[name]

        def draw(*args: Any, **kwargs: Any) -> Any:
            if creating or not tf.executing_eagerly():
                return plain(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            return operation(plain, given.arguments, lambda draw: serve(next(calls), draw))

        return draw

    with (
        _own_python_generators(),
        replaced_random_operations(replace),
        replaced_variable_creation(create_plainly),
    ):
        yield


def _python_states() -> dict[str, bytes]:
    states = {"numpy.random": np.random.get_state(), "random": random.getstate()}
    return {name: pickle.dumps(state) for name, state in states.items()}


@contextlib.contextmanager
def _own_python_generators() -> Iterator[None]:
    """Seed the global generators of Python and numpy, and give back their states at the end."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    random.seed(OWN_SEED)
    np.random.seed(OWN_SEED)
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
