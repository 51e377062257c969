"""What a training script leaves, serially and in lanes, and how far two such results are apart."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from fit_lanes import KerasSteps, in_lanes
from step_lanes import all_steps

from tnt_keras.partition.plan import Compute

from .case import Case

Values = dict[str, np.ndarray]


def outcome(case: Case, lanes: int = 0, ulps: int = 0) -> tuple[Values, dict[str, KerasSteps]]:
    """Run a script.

    Args:
        case: The script.
        lanes: How many; none for plain Keras.
        ulps: By how much all weights are moved before the first step.

    Returns:
        History, weights, state of optimizers, results of `evaluate` and `predict`; the steps.
    """
    keras.backend.clear_session()
    keras.mixed_precision.set_global_policy(case.policy)
    try:
        model, arguments = case.make()
        if ulps:
            _move(model)
        steps = in_lanes(model, lanes) if lanes else {}
        return _trained(case, model, arguments), steps
    finally:
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


def deviation(values: Values, expected: Values) -> tuple[float, str]:
    """Return how far values are apart, of each array's largest value, and which is the worst."""
    if list(values) != list(expected):
        return np.inf, f"other names: {set(values) ^ set(expected)}"
    worst, where = 0.0, ""
    for name, value in values.items():
        apart = _apart(value, expected[name])
        if apart > worst:
            worst, where = apart, name
    return worst, where


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
