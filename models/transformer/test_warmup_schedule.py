"""The learning rate follows the formula of the paper, also after saving."""

import keras
import numpy as np
import pytest

from models.transformer.schedule import WarmupInverseSquareRoot


def expected(step, hidden_size, warmup_steps):
    return 2.0 * hidden_size**-0.5 * min(1, step / warmup_steps) / max(step, warmup_steps) ** 0.5


@pytest.mark.parametrize("hidden_size", [512, 1024])
@pytest.mark.parametrize("step", [0, 1, 777, 7999, 8000, 8001, 300_000])
def test_the_rate_is_that_of_the_formula(step, hidden_size):
    schedule = WarmupInverseSquareRoot(2.0, hidden_size, 8000)
    np.testing.assert_allclose(schedule(step), expected(step, hidden_size, 8000), rtol=1e-6)


def test_the_rate_is_that_of_the_paper_but_for_the_factor():
    """lrate = d^-0.5 min(step^-0.5, step * warmup^-1.5), https://arxiv.org/abs/1706.03762 (3)."""
    schedule = WarmupInverseSquareRoot(1.0, 512, 4000)
    for step in (10, 4000, 100_000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        np.testing.assert_allclose(schedule(step), paper, rtol=1e-6)


def test_it_is_saved_with_an_optimizer():
    optimizer = keras.optimizers.Adam(WarmupInverseSquareRoot(2.0, 32, 100))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert again.get_config() == optimizer.get_config()


def test_no_warm_up_steps_are_refused():
    with pytest.raises(ValueError, match="at least 1 warm-up step"):
        WarmupInverseSquareRoot(2.0, 32, 0)
