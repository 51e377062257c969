"""What a step draws is what the serial step draws; without a seed, ranks draw alike."""

from __future__ import annotations

from typing import Any

import drawn_numbers
import numpy as np
from cases import cases
from serial_results import assert_serial


@cases("run_eagerly", [False], thorough=[True])
def test_generator_of_noise_on_gradients_is_the_serial_one(run_eagerly: bool, pool_of: Any) -> None:
    assert_serial(drawn_numbers.with_a_generator, pool_of, run_eagerly)


@cases("run_eagerly", [False], thorough=[True])
@cases("kind", ["keras.random"], thorough=drawn_numbers.NOISES)
def test_noise_on_gradients_without_a_seed_keeps_its_variance(
    kind: str, run_eagerly: bool, pool_of: Any
) -> None:
    first, second = pool_of(2).run(drawn_numbers.noise_without_a_seed, kind, run_eagerly)
    np.testing.assert_array_equal(first, second)
    assert abs(first.mean()) < 5 / first.size**0.5
    # 1/2 if ranks drew numbers of their own.
    assert abs(first.var() - 1) < 5 * (2 / first.size) ** 0.5
    [again, _] = pool_of(2).run(drawn_numbers.noise_without_a_seed, kind, run_eagerly)
    assert not np.array_equal(first, again)


def test_local_draws_are_others_and_ranks_stay_equal(pool_of: Any) -> None:
    [serial] = pool_of(1).run(drawn_numbers.trained_with_dropout, False)
    first, second = pool_of(2).run(drawn_numbers.trained_with_dropout, True, "local")
    for of_first, of_second in zip(first["weights"], second["weights"], strict=True):
        np.testing.assert_array_equal(of_first, of_second)
    assert not np.allclose(first["history"], serial["history"], rtol=1e-3)
    np.testing.assert_allclose(first["history"], serial["history"], rtol=0.5)
    assert first["line"].endswith("; 1 random draw of each rank's own")
