"""Ranks that have set other global seeds than rank 0 train like it."""

from __future__ import annotations

from typing import Any

import global_seeds
import numpy as np
from cases import cases


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for weights, serial in zip(found["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(weights, serial, rtol=1e-5, atol=1e-6)
    for history, serial in zip(found["histories"], expected["histories"], strict=True):
        assert history.keys() == serial.keys()
        for name, values in serial.items():
            np.testing.assert_allclose(history[name], values, rtol=1e-5, err_msg=name)


@cases("size", [2], thorough=[3])
@cases("kind", ["verified"], thorough=("weights", "split", "arrays", "class weights", "steps"))
def test_arrays_have_the_order_that_keras_draws_from_the_seed_of_rank_0(
    kind: str, size: int, pool_of: Any
) -> None:
    [expected] = pool_of(1).run(global_seeds.train, kind, False)
    for found in pool_of(size).run(global_seeds.train, kind, True):
        assert_equal(found, expected)


@cases("size", [2], thorough=[1])
def test_a_whole_script_gives_what_the_seed_of_rank_0_gives(size: int, pool_of: Any) -> None:
    [expected] = pool_of(1).run(global_seeds.train_own_model, False)
    for found in pool_of(size).run(global_seeds.train_own_model, True):
        assert_equal(found, expected)


def test_batches_of_a_pydataset_have_the_order_of_one_rank(pool_of: Any) -> None:
    [expected] = pool_of(1).run(global_seeds.train_on_batches)
    for found in pool_of(2).run(global_seeds.train_on_batches):
        assert_equal({"weights": found, "histories": []}, {"weights": expected, "histories": []})


def test_a_dataset_that_takes_over_the_seed_of_its_rank_is_refused_with_the_cause(
    pool_of: Any,
) -> None:
    for text in pool_of(2).run(global_seeds.error_of_dataset):
        cause, description = text.split("before you create the dataset. ")
        assert "is 7 on rank 0 and 8 on rank 1" in cause
        assert "the dataset must be the same on all ranks" in description
        assert "`keras.utils.set_random_seed(seed + rank)`: set the same seed on all" in text
