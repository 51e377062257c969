"""Train cases serially and on all ranks, and compare the whole trainings."""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from serial_comparison import Result, compare, failure, flat_logs, on_all_ranks

import tnt_keras

from .case import Case

BOUNDS = {"float32": 3e-5, "mixed_bfloat16": 6e-2, "mixed_float16": 1e-2}
"""Largest difference of a value, relative to the largest of its array, that is rounding.

A gradient is a sum in another order, so that it differs by units in the last place: 2**-24, 2**-9
and 2**-12. Eight steps with learning rates of about 0.1 add such differences up.
"""

SPACINGS = {"mixed_bfloat16": 2.0**-8, "mixed_float16": 2.0**-11}
"""From a value to its neighbours, relative to it."""

NUM_MOVED = 3
"""Serial trainings that show what a rounding grows to: one alone may happen to keep it small."""

LOSS_SCALE = 1024.0
"""Of float16 in place of the policy of a case.

The gradient of a rank's samples may be too large where that of all is not, so that near the largest
value of float16 a step may be skipped that the serial training does. There are tests of skipped
steps; these compare what is not skipped.
"""


def train_and_compare(cases: Sequence[Case], policy: str | None = None) -> list[tuple[int, Any]]:
    """Train all cases on all ranks, and compare each on one rank with its serial run. Collective.

    Args:
        cases: What to train.
        policy: A dtype policy in place of that of each case.

    Returns:
        For each case a checksum of the results, and a `Result` on the rank that has compared it.
    """
    gc.freeze()  # what others have left: it need not be looked through after each case
    return on_all_ranks(
        cases,
        lambda case, distributed: _outcome(case, policy, distributed=distributed),
        lambda case, actual, expected: _judge(case, policy, actual, expected),
        lambda case: case.is_comparable,
    )


def _judge(case: Case, policy: str | None, actual: Any, expected: Any) -> Result:
    """Compare with the serial training; if need be, also with what rounding does to that one.

    A training in half precision may amplify a rounding. How much it does is seen by serial
    trainings whose weights are moved to their neighbours at the begin.
    """
    precision = policy or case.policy
    result = _compare(case, actual, expected, BOUNDS[precision])
    if result.status != "DIFFERENT" or precision not in SPACINGS:
        return result
    noise = 0.0
    for seed in range(NUM_MOVED):
        move = functools.partial(_move, relative=SPACINGS[precision], seed=seed)
        moved = _outcome(case, policy, distributed=False, move=move)
        noise = max(noise, _compare(case, moved, expected, BOUNDS[precision]).deviation)
    return dataclasses.replace(result, status="exact") if result.deviation <= 2 * noise else result


def _outcome(
    case: Case,
    policy: str | None,
    *,
    distributed: bool,
    move: Callable[[Any], None] = lambda model: None,
) -> dict[str, Any] | Result:
    """Train, evaluate and predict; return all values by name, or the error."""
    keras.backend.clear_session()
    gc.collect()
    keras.mixed_precision.set_global_policy(policy or case.policy)
    try:
        model, arguments = case.make()
        if policy and isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
            model.optimizer.initial_scale = LOSS_SCALE
        move(model)
        return _train(case, model, arguments, distributed)
    except Exception as error:
        return failure(error, distributed)
    finally:
        keras.mixed_precision.set_global_policy("float32")


def _move(model: Any, relative: float, seed: int) -> None:
    """Make weights a bit larger or smaller, at random."""
    generator = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(variable * (1 + relative * generator.choice([-1, 1], variable.shape)))


def _train(case: Case, model: Any, arguments: Any, distributed: bool) -> dict[str, Any]:
    if distributed:
        model = tnt_keras.Model(model)
    history = model.fit(**arguments)
    values = {f"history[{name!r}]": np.asarray(each) for name, each in flat_logs(history.history)}
    for index, weight in enumerate(model.weights):
        values[f"weight {index} {weight.name}"] = np.asarray(weight.value)
    of_data = {key: arguments[key] for key in ("x", "batch_size") if key in arguments}
    if case.evaluates:
        targets = {key: arguments[key] for key in ("y", "sample_weight") if key in arguments}
        logs = model.evaluate(**of_data, **targets, verbose=0, return_dict=True)
        values |= {f"evaluate[{name!r}]": np.asarray(each) for name, each in flat_logs(logs)}
    if case.predicts:
        leaves = keras.tree.flatten(model.predict(**of_data, verbose=0))
        values |= {f"predict {index}": np.asarray(leaf) for index, leaf in enumerate(leaves)}
    return values


def _compare(case: Case, actual: Any, expected: Any, bound: float) -> Result:
    if case.is_comparable or isinstance(actual, Result):
        return compare(actual, expected, bound)
    return Result("exact")
