"""Compare the values that trainings leave behind on several ranks with those of serial Keras."""

from __future__ import annotations

import dataclasses
import traceback
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

import tnt_keras

Status = Literal["exact", "refused", "DIFFERENT", "CRASHED"]
Values: TypeAlias = "dict[str, np.ndarray]"
_Item = TypeVar("_Item")


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


def on_all_ranks(
    items: Sequence[_Item],
    outcome: Callable[[_Item, bool], Values | Result],
    judge: Callable[[_Item, Values | Result, Values | Result | None], Result],
    is_comparable: Callable[[_Item], bool] = lambda item: True,
) -> list[tuple[int, Any]]:
    """Train items on all ranks, and compare each on one rank with its serial training. Collective.

    The serial trainings come first, shared out among the ranks.

    Args:
        items: What to train.
        outcome: Trains an item, on all ranks or serially.
        judge: From an item and both outcomes.
        is_comparable: Whether an item is trained serially at all.

    Returns:
        For each item a checksum of the results, and a `Result` on the rank that has compared it.
    """
    rank, size = tnt_keras.get_rank(), tnt_keras.get_size()
    serial = {
        index: outcome(item, False)
        for index, item in enumerate(items)
        if index % size == rank and is_comparable(item)
    }
    of_items = []
    for index, item in enumerate(items):
        values = outcome(item, True)
        is_compared = index % size == rank
        result = judge(item, values, serial.get(index)) if is_compared else None
        of_items.append((checksum(values), result))
    return of_items


def joined(of_ranks: list[list[tuple[int, Any]]]) -> list[Result]:
    """Return the result of each item from what the ranks have returned."""
    results = []
    for of_item in zip(*of_ranks, strict=True):
        [result] = [result for _, result in of_item if result is not None]
        checksums = {each for each, _ in of_item}
        if len(checksums) > 1 and result.status == "exact":
            result = Result("DIFFERENT", "results of the ranks differ", result.deviation)
        results.append(result)
    return results


def compare(actual: Values | Result, expected: Values | Result, bound: float) -> Result:
    """Return how values differ from serial ones: "exact" up to a relative bound."""
    for outcome in (expected, actual):
        if isinstance(outcome, Result):
            return outcome
    assert isinstance(actual, dict)
    assert isinstance(expected, dict)
    if actual.keys() != expected.keys():
        return Result("DIFFERENT", f"names: {sorted(actual.keys() ^ expected.keys())}", np.inf)
    deviations = {name: _deviation(actual[name], expected[name]) for name in expected}
    worst = max(deviations, key=lambda name: deviations[name])
    status: Status = "exact" if deviations[worst] <= bound else "DIFFERENT"
    both = f"{_some(expected[worst])} serial, {_some(actual[worst])} here"
    return Result(status, f"{worst}: {both}", deviations[worst])


def failure(error: Exception, distributed: bool) -> Result:
    """Return the result of a training that ended with an error, which is being handled."""
    text = f"{'' if distributed else 'serial Keras: '}{type(error).__name__}: {error}"
    is_refusal = (
        isinstance(error, (ValueError, TypeError, RuntimeError))
        and not isinstance(error, tf.errors.OpError)
        and "tnt_keras" in traceback.format_exc().rsplit('File "', 1)[-1]
    )
    return Result("refused" if is_refusal else "CRASHED", text)


def flat_logs(logs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return logs, whose values may be dicts (or lists of them, one for each epoch)."""
    flat: list[tuple[str, Any]] = []
    for name, value in logs.items():
        if isinstance(value, dict):
            flat += [(f"{name}/{inner}", each) for inner, each in flat_logs(value)]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            keys = value[0].keys()
            flat += flat_logs({name: {key: [each[key] for each in value] for key in keys}})
        else:
            flat.append((name, value))
    return flat


def checksum(values: Values | Result) -> int:
    """Return a number that is the same for the same bits, or for errors of one kind."""
    if isinstance(values, Result):
        return zlib.crc32(values.status.encode())
    number = 0
    for name, value in values.items():
        number = zlib.crc32(np.ascontiguousarray(value).tobytes(), number)
        number = zlib.crc32(name.encode(), number)
    return number


def _deviation(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, relative to the largest entry; infinite for other shapes."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if expected.dtype.kind not in "fiub":  # texts
        return 0.0 if np.array_equal(actual, expected) else float("inf")
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
