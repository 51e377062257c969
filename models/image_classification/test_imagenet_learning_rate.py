"""Schedules follow their formulae, are continuous where the warm-up ends, and can be saved."""

import keras
import numpy as np
import pytest

from models.image_classification.learning_rate import (
    ExpDecayWithWarmupSchedule,
    PiecewiseConstantDecayWithWarmup,
    make_schedule,
    scaled_rate,
)

STEPS_PER_EPOCH = 100


def rates(schedule, steps):
    return np.array([float(schedule(step)) for step in steps])


def test_exponential_decay_follows_its_formula():
    schedule = make_schedule("exp_decay", 0.4, STEPS_PER_EPOCH, warmup_epochs=5)
    steps = np.array([0, 1, 250, 499, 500, 501, 740, 9000])
    expected = np.where(steps < 500, 0.4 * steps / 500, 0.4 * 0.97 ** ((steps - 500) / 240))
    np.testing.assert_allclose(rates(schedule, steps), expected, rtol=1e-5)


def test_the_original_fell_by_six_percent_at_the_end_of_the_warm_up_and_this_does_not():
    schedule = make_schedule("exp_decay", 0.4, STEPS_PER_EPOCH, warmup_epochs=5)
    before, after = rates(schedule, [500, 501])
    original_after = 0.4 * 0.97 ** (501 / 240)
    assert 0.4 / original_after == pytest.approx(1.0657, abs=1e-4)
    assert before == pytest.approx(0.4)
    assert after / before == pytest.approx(1, abs=2e-4)


def test_a_staircase_falls_in_steps_and_a_warm_up_rate_lowers_the_peak():
    schedule = ExpDecayWithWarmupSchedule(1.0, 10, 20, 0.5, warmup_rate=0.8, staircase=True)
    np.testing.assert_allclose(
        rates(schedule, [5, 10, 29, 30, 50]), [0.4, 0.8, 0.8, 0.4, 0.2], rtol=1e-6
    )


def test_piecewise_decay_follows_the_published_epochs():
    schedule = make_schedule("piecewise", 3.2, STEPS_PER_EPOCH, warmup_epochs=5)
    epochs = [0, 2.5, 5, 29.99, 30, 59.99, 60, 79.99, 80, 89]
    expected = [0, 1.6, 3.2, 3.2, 0.32, 0.32, 0.032, 0.032, 0.0032, 0.0032]
    steps = [round(epoch * STEPS_PER_EPOCH) for epoch in epochs]
    np.testing.assert_allclose(rates(schedule, steps), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["exp_decay", "piecewise"])
def test_without_warm_up_a_schedule_begins_at_its_peak(name):
    schedule = make_schedule(name, 0.1, STEPS_PER_EPOCH, warmup_epochs=0)
    assert float(schedule(0)) == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["exp_decay", "piecewise"])
def test_a_schedule_is_saved_with_its_optimizer(name):
    schedule = make_schedule(name, 0.1, STEPS_PER_EPOCH, warmup_epochs=5)
    optimizer = keras.optimizers.SGD(schedule, momentum=0.9)
    config = keras.saving.serialize_keras_object(optimizer)
    again = keras.saving.deserialize_keras_object(config)
    steps = [0, 300, 500, 4000]
    schedule_again = type(schedule).from_config(schedule.get_config())
    np.testing.assert_array_equal(rates(schedule_again, steps), rates(schedule, steps))
    assert again.get_config() == optimizer.get_config()


def test_the_rate_goes_with_the_batch_or_with_the_ranks():
    assert scaled_rate(0.1, "batch", 8192, num_ranks=1) == pytest.approx(3.2)
    assert scaled_rate(0.1, "batch", 8192, num_ranks=256) == pytest.approx(3.2)
    assert scaled_rate(0.1, "ranks", 8192, num_ranks=8) == pytest.approx(0.8)


def test_impossible_lengths_are_refused():
    with pytest.raises(ValueError, match="greater than 0"):
        ExpDecayWithWarmupSchedule(0.1, 10, 0)
    with pytest.raises(ValueError, match="one more"):
        PiecewiseConstantDecayWithWarmup(0.1, 10, [20, 30], [1.0, 0.1])
    with pytest.raises(ValueError, match="warm-up end before"):
        PiecewiseConstantDecayWithWarmup(0.1, 21, [20], [1.0, 0.1])
    with pytest.raises(ValueError, match="must ascend"):
        PiecewiseConstantDecayWithWarmup(0.1, 0, [30, 20], [1.0, 0.1, 0.01])
