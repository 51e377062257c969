"""Whether a training on several ranks has left what the serial one leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import cases

of_all_sizes = cases("size", [2], thorough=[3])
"""Of runs whose last batch has a single sample, so that a rank has none."""


def assert_serial(
    function: Any,
    pool_of: Any,
    *arguments: Any,
    size: int = 2,
    bound: float = 1e-5,
    least: float = 1e-3,
) -> list[Any]:
    """Compare what a run leaves on all ranks with what it leaves serially, and weights bit by bit.

    Args:
        function: Takes whether models are distributed, and the other arguments. Returns a dict.
        pool_of: The fixture.
        arguments: Others of the function.
        size: Number of ranks.
        bound: As of `assert_close`.
        least: As of `assert_close`.

    Returns:
        The results of all ranks, which may hold more than the serial one.
    """
    [expected] = pool_of(1).run(function, False, *arguments)
    results: list[Any] = pool_of(size).run(function, True, *arguments)
    for result in results:
        assert_close({name: result[name] for name in expected}, expected, bound, least=least)
        for own, master in zip(
            result.get("weights", []), results[0].get("weights", []), strict=True
        ):
            np.testing.assert_array_equal(own, master)
    return results


def assert_close(
    actual: Any, expected: Any, bound: float = 1e-5, name: str = "", least: float = 1e-3
) -> None:
    """Compare dicts and lists of arrays entry by entry.

    Args:
        actual: What ranks have left.
        expected: What the serial run has left.
        bound: Largest difference, relative to the largest entry of an array.
        name: Of the value.
        least: What the largest entry counts at least: some values hold rounding errors alone.
    """
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), name
        for key, value in expected.items():
            assert_close(actual[key], value, bound, f"{name}/{key}", least)
    elif isinstance(expected, list) and expected and isinstance(expected[0], np.ndarray):
        for index, (own, value) in enumerate(zip(actual, expected, strict=True)):
            assert_close(own, value, bound, f"{name}[{index}]", least)
    elif np.asarray(expected).dtype.kind in "OU":
        assert actual == expected, name
    else:
        scale = np.max(np.abs(expected), initial=least)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=bound * scale, err_msg=name)
