"""Synchronized batch normalisation gives the serial result, and fusing it changes nothing."""

from __future__ import annotations

import functools
from typing import Any

import batch_norms
import pytest
from cases import cases
from serial_results import assert_close, assert_serial, of_all_sizes

# A bias before such a layer has no gradient but rounding errors, of the size of the others.
assert_serial = functools.partial(assert_serial, least=0.1)


@of_all_sizes
@cases("name", ["masked texts"], thorough=["images"])
def test_synchronized_layers_give_the_serial_result(name: str, size: int, pool_of: Any) -> None:
    assert_serial(batch_norms.trained, pool_of, name, size=size)


def test_a_gradient_penalty_through_synchronized_layers_gives_the_serial_result(
    pool_of: Any,
) -> None:
    assert_serial(batch_norms.with_penalised_gradients, pool_of, bound=1e-4)


@pytest.mark.thorough
def test_fused_layers_of_ranks_give_what_those_of_keras_give(pool_of: Any) -> None:
    fused = pool_of(2).run(batch_norms.trained, True, "local", True)
    unfused = pool_of(2).run(batch_norms.trained, True, "local", False)
    for of_fused, of_unfused in zip(fused, unfused, strict=True):
        assert_close(of_fused, of_unfused, least=0.1)
