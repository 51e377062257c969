"""A step in n lanes of one process, against the same step as TensorFlow runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition import REPLICATED, Input, Lanes, Request, Rows, build, trace


class OneProcess:
    """The exchange of a process that is alone: what its lanes combined is the result."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.flushes: list[list[Request]] = []
        self.blocked: list[Request] = []

    def ask(self, request: Request) -> None:
        self.asked.append(request)

    def flush(self, last: bool) -> list[tf.Tensor]:
        asked, self.asked = self.asked, []
        self.flushes.append(asked)
        return [tf.identity(request.value) for request in asked]

    def blocking(self, request: Request) -> tf.Tensor:
        self.blocked.append(request)
        return tf.identity(request.value)

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        return make()


class StepInLanes:
    """A function, partitioned once for each shape of its arguments.

    Args:
        function: Takes flat tensors.
        rows: For each argument whether it has rows.
        lanes: How many.
    """

    def __init__(self, function: Callable[..., Any], rows: Sequence[bool], lanes: int) -> None:
        self.function, self.rows, self.lanes = function, rows, lanes
        self.traced: Any = None
        self.built: dict[Any, Any] = {}
        self.exchange = OneProcess()

    def __call__(self, *arguments: Any) -> Any:
        tensors = [tf.convert_to_tensor(a) for a in arguments]
        if self.traced is None:
            specs = [
                tf.TensorSpec([None, *t.shape[1:]] if r else t.shape, t.dtype)
                for t, r in zip(tensors, self.rows, strict=True)
            ]
            self.traced = trace(self.function, specs)
        key = tuple(tuple(t.shape) for t in tensors)
        if key not in self.built:
            self.built[key] = self._build(tensors)
        return self.built[key](*self._local(tensors))

    def _build(self, tensors: Sequence[tf.Tensor]) -> Any:
        num_rows = next(int(t.shape[0]) for t, r in zip(tensors, self.rows, strict=True) if r)
        inputs = [
            Input(tuple(t.shape), Rows(0) if r and num_rows >= self.lanes else REPLICATED)
            for t, r in zip(tensors, self.rows, strict=True)
        ]

        def make_exchange() -> OneProcess:
            self.exchange = OneProcess()
            return self.exchange

        return build(self.traced, inputs, Lanes(0, self.lanes, self.lanes), num_rows, make_exchange)

    def _local(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        local = []
        for tensor, has_rows in zip(tensors, self.rows, strict=True):
            if has_rows and int(tensor.shape[0]) >= self.lanes:
                local += [tensor[v :: self.lanes] for v in range(self.lanes)]
            else:
                local.append(tensor)
        return local


def assert_equal(result: Any, expected: Any, rtol: float = 2e-5) -> None:
    """Assert that two structures hold the same values, floats up to rounding."""
    a, b = tf.nest.flatten(result), tf.nest.flatten(expected)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, (x.shape, y.shape)
        if y.dtype.kind in "fc":
            scale = np.nan_to_num(np.abs(y), posinf=0).max(initial=1e-3)
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale)
        else:
            np.testing.assert_array_equal(x, y)


def assert_lanes(
    function: Callable[..., Any], arguments: Sequence[Any], rows: Sequence[bool], lanes: int, rtol: float = 2e-5
) -> StepInLanes:
    """Assert that a function without variables gives in lanes what TensorFlow gives."""
    step = StepInLanes(function, rows, lanes)
    expected = tf.function(function, autograph=False)(*[tf.convert_to_tensor(a) for a in arguments])
    assert_equal(step(*arguments), expected, rtol)
    return step
