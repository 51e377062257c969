"""What a script leaves, serially and in replicas, and how far two such results are apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from fit_replicas import LOOPS, KerasSteps, in_replicas
from step_replicas import all_steps

from tnt_keras.partition.plan import Compute

from .case import Case

Values = dict[str, np.ndarray]


class _SharedTraces(KerasSteps):
    """Steps of a model that are traced once for all numbers of replicas.

    Attributes:
        first: The variables of the step and what they held before the first step.
    """

    first: list[tuple[Any, np.ndarray]]

    def _build(self, traced: Any, *args: Any) -> Any:
        if not hasattr(self, "first"):
            self.first = [(v, v.numpy()) for v in traced.variables]
        return super()._build(traced, *args)


def serially(case: Case, ulps: int = 0) -> Values:
    """Return what plain Keras leaves: history, weights, state of optimizers, results.

    Args:
        case: The script.
        ulps: By how much all weights are moved before the first step.
    """
    with _policy(case):
        model, arguments = case.make()
        if ulps:
            _move(model)
        return _trained(case, model, arguments)


def in_numbers_of_replicas(
    case: Case, numbers: Sequence[int]
) -> Iterator[tuple[int, Values, dict[str, KerasSteps]]]:
    """Run a script in replicas: once for each number of them, each time from the start.

    Yields:
        The number of replicas, what the run leaves, and its steps.
    """
    with _policy(case):
        model, arguments = case.make()
        steps: dict[str, KerasSteps] = {}
        for replicas in numbers:
            before, steps = steps, in_replicas(model, replicas)
            for kind in LOOPS:
                steps[kind].__class__ = _SharedTraces
                if before:
                    steps[kind].traces = before[kind].traces
                    setattr(model, f"{kind}_function", steps[kind])
            if before and isinstance(arguments.get("x"), tf.data.Dataset):
                arguments = arguments | {"x": case.make()[1]["x"]}  # that has shuffled nothing yet
            # What one kind trains is put back last: others saw it trained.
            for kind in reversed(LOOPS) if before else ():
                for variable, value in getattr(before[kind], "first", ()):
                    variable.assign(value)
            yield replicas, _trained(case, model, arguments), steps


class _policy:
    def __init__(self, case: Case) -> None:
        self.policy = case.policy

    def __enter__(self) -> None:
        keras.backend.clear_session()
        keras.mixed_precision.set_global_policy(self.policy)

    def __exit__(self, *error: object) -> None:
        keras.mixed_precision.set_global_policy("float32")


def _trained(case: Case, model: Any, arguments: dict[str, Any]) -> Values:
    values = {f"history {k}": v for k, v in model.fit(**arguments).history.items()}
    optimizers = [getattr(model, "optimizer", None), *getattr(model, "own_optimizers", [])]
    kept = [*model.weights, *(v for o in optimizers if o is not None for v in o.variables)]
    values |= {f"{i} {v.path}": keras.ops.convert_to_numpy(v) for i, v in enumerate(kept)}
    of_x = {k: arguments[k] for k in ("x", "batch_size") if k in arguments}
    if case.evaluates:
        targets = {k: arguments[k] for k in ("y", "sample_weight") if k in arguments}
        logs = model.evaluate(**of_x, **targets, verbose=0, return_dict=True)
        values |= {f"evaluate {k}": v for k, v in logs.items()}
    if case.predicts:
        outputs = keras.tree.flatten(model.predict(**of_x, verbose=0))
        values |= {f"predict {i}": v for i, v in enumerate(outputs)}
    return {k: _array(v) for k, v in values.items()}


def _array(value: Any) -> np.ndarray:
    leaves = [np.asarray(leaf) for leaf in keras.tree.flatten(value)]
    array = leaves[0] if len(leaves) == 1 else np.stack(leaves)
    return array if array.dtype.kind in "OSUb" else array.astype("float64")


def _move(model: Any) -> None:
    for variable in model.trainable_variables:
        value = keras.ops.convert_to_numpy(variable)
        if value.dtype == np.float32:
            variable.assign(np.nextafter(value, np.float32(np.inf)))


def deviations(values: Values, expected: Values) -> dict[str, float]:
    """Return for each value how far it is from what is expected, of its largest number."""
    assert list(values) == list(expected)
    return {name: _apart(value, expected[name]) for name, value in values.items()}


def _apart(value: np.ndarray, expected: np.ndarray) -> float:
    if value.shape != expected.shape:
        return np.inf
    if value.dtype.kind in "OSUb":
        return 0.0 if (value == expected).all() else np.inf
    if (np.isnan(value) != np.isnan(expected)).any():
        return np.inf
    same = (value == expected) | np.isnan(expected)
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(value - expected))
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-3)
    return float(error.max(initial=0.0) / scale)


def gathered(steps: dict[str, KerasSteps]) -> set[str]:
    """Return the types of operations for which rows are gathered because no rule applies."""
    return {
        s.node.type
        for kind in steps.values()
        for built, _ in kind.built.values()
        for s in all_steps(built.plan)
        if isinstance(s, Compute) and s.is_gathered
    }
