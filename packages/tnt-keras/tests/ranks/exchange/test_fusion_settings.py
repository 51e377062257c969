"""Settings of fusion change no bit; compression changes results within its precision."""

from __future__ import annotations

import re
from typing import Any

import fusion_runs
import numpy as np
from rank_pools import ENVIRONMENT

from tnt_comm.testing import run_ranks


def _train(preloaded: Any, **variables: str) -> list[dict[str, Any]]:
    environment = {**ENVIRONMENT, "TNT_LOG_LEVEL": "INFO", **variables}
    return run_ranks(fusion_runs.train, 2, env=environment, timeout_s=120, preloaded=preloaded)


def _lines(result: dict[str, Any], word: str) -> list[str]:
    return [message for message in result["messages"] if word in message]


def test_an_automatic_threshold_is_announced_and_changes_no_bit(
    pool_of: Any, preloaded: Any
) -> None:
    default = pool_of(2).run(fusion_runs.train)
    automatic = _train(preloaded, TNT_FUSION_THRESHOLD_KB="auto")
    for result in [*default, *automatic]:
        for weight, reference in zip(result["weights"], default[0]["weights"], strict=True):
            np.testing.assert_array_equal(weight, reference)
    [line] = _lines(automatic[0], "fusion threshold")
    found = re.fullmatch(
        r"fusion threshold auto: (\d+) kB \(latency \d+ us, bandwidth [\d.e+-]+ GB/s\)", line
    )
    assert found, line
    kilobytes = int(found[1])
    assert 4 <= kilobytes <= 16384
    assert kilobytes & (kilobytes - 1) == 0
    assert _lines(automatic[1], "fusion threshold") == []


def test_compressed_training_is_announced_and_close_to_the_exact_one(
    pool_of: Any, preloaded: Any
) -> None:
    default = pool_of(2).run(fusion_runs.train)[0]
    compressed = _train(preloaded, TNT_WIRE_DTYPE="bfloat16")
    num_bytes = 4 * default["num_parameters"]
    assert _lines(compressed[0], "travel") == [
        f"gradients travel as bfloat16: {num_bytes / 2e6:.3g} MB instead of {num_bytes / 1e6:.3g} "
        "MB per rank and step"
    ]
    [line] = _lines(compressed[0], "wire dtype")
    assert re.fullmatch(
        r"wire dtype bfloat16: 4 MiB of float32 are summed in [\d.e+]+ ms instead of [\d.e+]+ ms, "
        r"with a relative error of \d\.\de-03",
        line,
    ), line
    assert _lines(compressed[1], "wire dtype") == []
    first, second = (result["weights"] for result in compressed)
    is_different = False
    for own, other, exact in zip(first, second, default["weights"], strict=True):
        np.testing.assert_array_equal(own, other)
        # 4 steps with a learning rate of 0.1 and momentum 0.9, and gradients below 1.
        np.testing.assert_allclose(own, exact, rtol=0, atol=4 * 0.1 / (1 - 0.9) * 2 * 2.0**-8)
        is_different |= not np.array_equal(own, exact)
    assert is_different
