"""A step in n replicas of one process, against the same step as TensorFlow runs it.

The step is traced once. Its trace is what TensorFlow runs, and what is built for every number of
replicas and every shape of a batch. Variables are put back between the two, and both must leave the
same in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import settings

from tnt_keras.partition import (
    REPLICATED,
    Input,
    PartitionedStep,
    Replicas,
    Request,
    Sharded,
    build,
    trace,
)
from tnt_keras.partition.plan import Body, Compute, Step

Batch = Sequence[Any]

LONG_RUN = 1000
"""Examples of hypothesis' profile in the long run, which has another number of replicas too."""


def usual_replicas() -> tuple[int, ...]:
    """Numbers of replicas of a test that names none."""
    return (2, 3) if settings().max_examples >= LONG_RUN else (3,)


def in_one_process(count: int) -> Replicas:
    """All replicas in one process, as lanes of which it computes one at a time."""
    return Replicas(0, count, count, are_lanes=True, at_once=1)


class OneProcess:
    """The exchange of a process that is alone: what its replicas combined is the result.

    Attributes:
        flushes: What was asked for in each exchange.
        blocked: What was exchanged alone.
    """

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.flushes: list[list[Request]] = []
        self.blocked: list[Request] = []
        self._is_over = False

    def ask(self, request: Request) -> None:
        assert not self._is_over, f"{request.name} is asked for after the last exchange"
        self.asked.append(request)

    def flush(self, last: bool) -> list[tf.Tensor]:
        self._is_over = last
        asked, self.asked = self.asked, []
        self.flushes.append(asked)
        return [tf.identity(request.value) for request in asked]

    def blocking(self, request: Request) -> tf.Tensor:
        self.blocked.append(request)
        return tf.identity(request.value)

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        return make()


class StepInReplicas:
    """A function of batches, traced once.

    Args:
        function: Takes flat tensors. May read and assign variables.
        batch: One of the batches that it will be called with.
        rows: For each argument whether it has the batch's rows; None if all have.
        unknown: Argument -> its axes whose sizes are not known when a step is built. Axis 0 of one
            with rows stands for all rows: then steps are built for any number of them.
        static: Whether the number of rows stands in the trace.
        with_example: Whether a step is told the sizes of the first batch where they may vary.
        variables: That the function assigns.

    Attributes:
        built: The steps, by the number of replicas and the sizes that they know.
        exchange: Of the step that was built last.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        batch: Batch,
        *,
        rows: Sequence[bool] | None = None,
        unknown: Mapping[int, Sequence[int]] | None = None,
        static: bool = False,
        with_example: bool = False,
        variables: Sequence[tf.Variable] = (),
    ) -> None:
        self.with_example = with_example
        tensors = [tf.convert_to_tensor(a) for a in batch]
        self.rows = [True] * len(tensors) if rows is None else list(rows)
        self.unknown = unknown or {}
        self.variables = list(variables)
        specs = [
            tf.TensorSpec(
                [None if a == 0 and r and not static else s for a, s in enumerate(sizes)], t.dtype
            )
            for t, r, sizes in zip(tensors, self.rows, self._known_shapes(tensors, 1), strict=True)
        ]
        self.traced = trace(function, specs)
        self.built: dict[Any, PartitionedStep] = {}
        self.exchange = OneProcess()

    def serial(self, batch: Batch) -> Any:
        """What TensorFlow gives for a batch."""
        tensors = [tf.convert_to_tensor(a) for a in batch]
        return self.traced.concrete_function(*tensors)

    def in_replicas(self, batch: Batch, replicas: int) -> Any:
        """What replicas give for a batch."""
        tensors = [tf.convert_to_tensor(a) for a in batch]
        step, local = self.step(batch, replicas), self._local(tensors, replicas)
        if self._has_any_rows(tensors, replicas):
            local.append(tf.constant(self._num_rows(tensors), tf.int64))
        return step(*local)

    def step(self, batch: Batch, replicas: int) -> PartitionedStep:
        """The step that is built for such a batch."""
        tensors = [tf.convert_to_tensor(a) for a in batch]
        shapes = self._known_shapes(tensors, replicas)
        num_rows: int | None = max(self._num_rows(tensors), replicas)
        is_cut = self._num_rows(tensors) >= replicas
        if self._has_any_rows(tensors, replicas):
            num_rows = None
        key = replicas, num_rows or is_cut, tuple(shapes)
        if key not in self.built:
            inputs = [
                Input(
                    shape,
                    Sharded(0) if r and is_cut else REPLICATED,
                    tuple(t.shape) if self.with_example else None,
                )
                for shape, t, r in zip(shapes, tensors, self.rows, strict=True)
            ]
            self.built[key] = build(
                self.traced, inputs, in_one_process(replicas), num_rows, self._exchange
            )
        return self.built[key]

    def saved(self) -> list[Any]:
        """What variables hold."""
        return [np.array(v.numpy()) for v in self.variables]

    def restore(self, values: Sequence[Any]) -> None:
        """Give variables what they held."""
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)

    def _exchange(self, tensors: Sequence[tf.Tensor]) -> OneProcess:
        self.exchange = OneProcess()
        return self.exchange

    def _has_any_rows(self, tensors: Sequence[tf.Tensor], replicas: int) -> bool:
        """Whether such a batch has a step that is built for any number of rows."""
        is_unknown = any(0 in axes and self.rows[i] for i, axes in self.unknown.items())
        return is_unknown and self._num_rows(tensors) >= max(replicas, 2)

    def _num_rows(self, tensors: Sequence[tf.Tensor]) -> int:
        return next((int(t.shape[0]) for t, r in zip(tensors, self.rows, strict=True) if r), 1)

    def _known_shapes(
        self, tensors: Sequence[tf.Tensor], replicas: int
    ) -> list[tuple[int | None, ...]]:
        has_any = self._has_any_rows(tensors, replicas)
        return [
            tuple(
                None if (has_any if a == 0 and r else a in self.unknown.get(i, ())) else s
                for a, s in enumerate(t.shape)
            )
            for i, (t, r) in enumerate(zip(tensors, self.rows, strict=True))
        ]

    def _local(self, tensors: Sequence[tf.Tensor], replicas: int) -> list[tf.Tensor]:
        local = []
        for tensor, has_rows in zip(tensors, self.rows, strict=True):
            if has_rows and self._num_rows(tensors) >= replicas:
                local += [tensor[v::replicas] for v in range(replicas)]
            else:
                local.append(tensor)
        return local


def assert_equal(result: Any, expected: Any, rtol: float = 2e-5) -> None:
    """Assert that two structures hold the same values: floats up to `rtol`, bitwise if it is 0."""
    a = tf.nest.flatten(result, expand_composites=True)
    b = tf.nest.flatten(expected, expand_composites=True)
    assert len(a) == len(b)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, f"value {i} has the shape {x.shape}, not {y.shape}"
        assert x.dtype == y.dtype, f"value {i} is {x.dtype}, not {y.dtype}"
        if tf.as_dtype(y.dtype) == tf.bfloat16:
            x, y = x.astype("float32"), y.astype("float32")
        if y.dtype.kind in "fc" and rtol:
            finite = np.abs(y[np.isfinite(y)])
            scale = finite.max(initial=1e-3)
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale, err_msg=f"value {i}")
        else:
            np.testing.assert_array_equal(x, y, err_msg=f"value {i}")


def assert_replicas(
    function: Callable[..., Any],
    *batches: Batch,
    replicas: Sequence[int] | None = None,
    rows: Sequence[bool] | None = None,
    unknown: Mapping[int, Sequence[int]] | None = None,
    static: bool = False,
    with_example: bool = False,
    variables: Sequence[tf.Variable] = (),
    rtol: float = 2e-5,
) -> StepInReplicas:
    """Assert that a step gives in replicas what TensorFlow gives, batch by batch, in variables too.

    Args:
        function: As for `StepInReplicas`.
        batches: That it is called with.
        replicas: Numbers of replicas; None for the usual ones.
        rows: As for `StepInReplicas`.
        unknown: As for `StepInReplicas`: one step is built for all batches with as many rows.
        static: As for `StepInReplicas`.
        with_example: As for `StepInReplicas`.
        variables: As for `StepInReplicas`.
        rtol: Rounding that is allowed; 0 for none.

    Returns:
        The step, for further questions.
    """
    step = StepInReplicas(
        function,
        batches[0],
        rows=rows,
        unknown=unknown,
        static=static,
        with_example=with_example,
        variables=variables,
    )
    assert_step(step, *batches, replicas=replicas or usual_replicas(), rtol=rtol)
    return step


def assert_step(
    step: StepInReplicas, *batches: Batch, replicas: Sequence[int], rtol: float = 2e-5
) -> None:
    """Assert the same of a step that was traced already."""
    for i, batch in enumerate(batches):
        before = step.saved()
        expected = step.serial(batch)
        after = step.saved()
        for count in replicas:
            step.restore(before)
            try:
                result = step.in_replicas(batch, count)
                assert_equal(result, expected, rtol)
                assert_equal(step.saved(), after, rtol)
            except AssertionError as error:
                raise AssertionError(f"batch {i} in {count} replicas: {error}") from error
        step.restore(after)


def all_steps(body: Body) -> Iterator[Step]:
    """All that is done for nodes of a graph and of the bodies of its loops, branches, regions."""
    for each in body.with_inner():
        yield from each.steps


def gathered(step: StepInReplicas) -> list[str]:
    """The types of operations for which rows were gathered because no rule applied."""
    return sorted(
        {
            s.node.type
            for built in step.built.values()
            for s in all_steps(built.plan)
            if isinstance(s, Compute) and s.is_gathered
        }
    )


def exchanged(step: PartitionedStep) -> list[tuple[str, str, int | None]]:
    """What a step exchanges: kind, name and number of the exchange of each value."""
    assert step.explanation is not None
    return sorted((e.kind, e.name, e.level) for e in step.explanation.exchanged)
