"""Whether a training on several ranks has left what the serial one leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def assert_serial(results: Sequence[Any], expected: Any, bound: float) -> None:
    """Compare weights and logs of all ranks with the serial ones, and weights between ranks.

    Args:
        results: Of each rank: "weights", and "history" and "evaluate" by the names of logs.
        expected: The same of the serial training.
        bound: Relative; of weights to the largest entry, at least 0.01.
    """
    for result in results:
        for actual, wanted in zip(result["weights"], expected["weights"], strict=True):
            scale = np.max(np.abs(wanted), initial=1e-2)
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=bound * scale)
        for actual, master in zip(result["weights"], results[0]["weights"], strict=True):
            np.testing.assert_array_equal(actual, master)
        for logs in ("history", "evaluate"):
            assert result[logs].keys() == expected[logs].keys()
            for key, wanted in expected[logs].items():
                np.testing.assert_allclose(result[logs][key], wanted, rtol=bound, err_msg=key)
