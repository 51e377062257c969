"""Train cases serially and on all ranks, and compare the whole trainings."""

from __future__ import annotations

import dataclasses
import functools
import gc
import traceback
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

import tnt_keras

from .case import Case

Status = Literal["exact", "refused", "DIFFERENT", "CRASHED"]

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


@dataclasses.dataclass(frozen=True)
class Result:
    """How a training on several ranks ended.

    Attributes:
        status: "exact"; "refused" by Tarantella's own error; "DIFFERENT" from serial without a
            word; "CRASHED" by any other error.
        text: What differs most, or the error.
        deviation: Largest relative difference from serial, 0 if there are no results.
    """

    status: Status
    text: str = ""
    deviation: float = 0.0


def train_and_compare(cases: Sequence[Case], policy: str | None = None) -> list[tuple[int, Any]]:
    """Train all cases on all ranks, and compare each on one rank with its serial run. Collective.

    Args:
        cases: What to train.
        policy: A dtype policy in place of that of each case.

    Returns:
        For each case a checksum of the results, and a `Result` on the rank that has compared it.
    """
    rank, size = tnt_keras.get_rank(), tnt_keras.get_size()
    gc.freeze()  # what others have left: it need not be looked through after each case
    serial = {
        case.name: _outcome(case, policy, distributed=False)
        for case in cases[rank::size]
        if case.is_comparable
    }
    of_cases = []
    for index, case in enumerate(cases):
        values = _outcome(case, policy, distributed=True)
        is_compared = index % size == rank
        result = _judge(case, policy, values, serial.get(case.name)) if is_compared else None
        of_cases.append((_checksum(values), result))
    return of_cases


def refusals(cases: Sequence[Case]) -> list[str]:
    """Return of each case why its training was refused, "" if it was not. Collective.

    Args:
        cases: What to train.
    """
    messages = []
    for case in cases:
        keras.backend.clear_session()
        model, arguments = case.make()
        try:
            tnt_keras.Model(model, probe="error").fit(**arguments)
            messages.append("")
        except tnt_keras.ProbeError as error:
            messages.append(str(error))
    return messages


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


def joined(of_ranks: list[list[tuple[int, Any]]]) -> list[Result]:
    """Return the result of each case from what the ranks have returned."""
    results = []
    for of_case in zip(*of_ranks, strict=True):
        [result] = [result for _, result in of_case if result is not None]
        checksums = {checksum for checksum, _ in of_case}
        if len(checksums) > 1 and result.status == "exact":
            result = Result("DIFFERENT", "results of the ranks differ", result.deviation)
        results.append(result)
    return results


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
        return _failure(error, "" if distributed else "serial Keras: ")
    finally:
        keras.mixed_precision.set_global_policy("float32")


def _move(model: Any, relative: float, seed: int) -> None:
    """Make weights a bit larger or smaller, at random."""
    generator = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(variable * (1 + relative * generator.choice([-1, 1], variable.shape)))


def _train(case: Case, model: Any, arguments: Any, distributed: bool) -> dict[str, Any]:
    if distributed:
        model = tnt_keras.Model(model, probe="error")
    history = model.fit(**arguments)
    values = {f"history[{name!r}]": np.asarray(each) for name, each in _flat(history.history)}
    for index, weight in enumerate(model.weights):
        values[f"weight {index} {weight.name}"] = np.asarray(weight.value)
    of_data = {key: arguments[key] for key in ("x", "batch_size") if key in arguments}
    if case.evaluates:
        targets = {key: arguments[key] for key in ("y", "sample_weight") if key in arguments}
        logs = model.evaluate(**of_data, **targets, verbose=0, return_dict=True)
        values |= {f"evaluate[{name!r}]": np.asarray(each) for name, each in _flat(logs)}
    if case.predicts:
        leaves = keras.tree.flatten(model.predict(**of_data, verbose=0))
        values |= {f"predict {index}": np.asarray(leaf) for index, leaf in enumerate(leaves)}
    return values


def _flat(logs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return logs, whose values may be dicts (or lists of them, one for each epoch)."""
    flat: list[tuple[str, Any]] = []
    for name, value in logs.items():
        if isinstance(value, dict):
            flat += [(f"{name}/{inner}", each) for inner, each in _flat(value)]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            keys = value[0].keys()
            flat += _flat({name: {key: [each[key] for each in value] for key in keys}})
        else:
            flat.append((name, value))
    return flat


def _failure(error: Exception, where: str) -> Result:
    text = f"{where}{type(error).__name__}: {error}"
    refusals = getattr(tnt_keras, "ProbeError", ())
    is_refusal = isinstance(error, refusals) or (
        isinstance(error, (ValueError, TypeError, RuntimeError))
        and not isinstance(error, tf.errors.OpError)
        and "tnt_keras" in traceback.format_exc().rsplit('File "', 1)[-1]
    )
    return Result("refused" if is_refusal else "CRASHED", text)


def _compare(case: Case, actual: dict[str, Any] | Result, expected: Any, bound: float) -> Result:
    for outcome in (expected, actual):
        if isinstance(outcome, Result):
            return outcome
    if not case.is_comparable:
        return Result("exact")
    if actual.keys() != expected.keys():
        return Result("DIFFERENT", f"names: {sorted(actual.keys() ^ expected.keys())}", np.inf)
    deviations = {name: _deviation(actual[name], expected[name]) for name in expected}
    worst = max(deviations, key=lambda name: deviations[name])
    status: Status = "exact" if deviations[worst] <= bound else "DIFFERENT"
    both = f"{_some(expected[worst])} serial, {_some(actual[worst])} here"
    return Result(status, f"{worst}: {both}", deviations[worst])


def _deviation(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, relative to the largest entry; infinite for other shapes."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if expected.size == 0 or np.array_equal(actual, expected, equal_nan=expected.dtype.kind == "f"):
        return 0.0
    actual, expected = actual.astype("float64"), expected.astype("float64")
    is_same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    scale = max(float(np.max(np.abs(expected), where=np.isfinite(expected), initial=0)), 1e-2)
    difference = float(np.max(np.abs(actual - expected), where=~is_same, initial=0))
    return difference / scale if np.isfinite(difference) else float("inf")


def _some(values: np.ndarray) -> str:
    return np.array2string(values.reshape(-1)[:3], precision=6) + (
        "" if values.size <= 3 else f" of {values.shape}"
    )


def _checksum(values: dict[str, Any] | Result) -> int:
    if isinstance(values, Result):
        return zlib.crc32(values.status.encode())
    checksum = 0
    for name, value in values.items():
        checksum = zlib.crc32(np.ascontiguousarray(value).tobytes(), checksum)
        checksum = zlib.crc32(name.encode(), checksum)
    return checksum
