"""A proof changes nothing, is made once, and stops what is not the serial training."""

from __future__ import annotations

import re
from typing import Any

import cases
import features
import numpy as np
import proofs
import pytest


@pytest.mark.parametrize(
    "arguments",
    [{}, pytest.param({"steps_per_epoch": 2}, marks=pytest.mark.thorough)],
    ids=["whole", "steps"],
)
def test_training_goes_on_bit_for_bit_as_without_a_proof(
    arguments: dict[str, Any], pool_of: Any
) -> None:
    without = pool_of(2).run(proofs.trained, "off", arguments)
    proved = pool_of(2).run(proofs.trained, "error", arguments)
    for own, expected in zip(proved, without, strict=True):
        assert own["history"] == expected["history"]
        assert own["random"] == expected["random"]
        for kind in ("optimizer", "variables"):
            for one, other in zip(own[kind], expected[kind], strict=True):
                np.testing.assert_array_equal(one, other)


def test_each_step_is_proved_once_until_the_model_is_compiled_anew(pool_of: Any) -> None:
    for counts in pool_of(2).run(proofs.counted):
        assert counts == {
            "train_step": 1,
            "test_step": 1,
            "predict_step": 1,
            "after compile": 4,
        }


def test_a_proof_runs_the_optimizer_once_to_get_to_its_second_state(pool_of: Any) -> None:
    assert pool_of(2).run(proofs.updates_in_a_proof) == [1, 1]


@pytest.mark.parametrize(
    ("method", "size"),
    [
        ("fit", 2),
        *(pytest.param(name, 3, marks=pytest.mark.thorough) for name in ("fit", "train_on_batch")),
    ],
)
def test_a_step_that_is_not_that_of_the_serial_run_stops_before_it_trains(
    method: str, size: int, pool_of: Any
) -> None:
    for message in pool_of(size).run(proofs.refused, method):
        assert "`train_step` would not be that of the serial run" in message
        assert "tnt.batch_mean" in message


def test_what_may_be_rounding_is_settled_in_float64(pool_of: Any) -> None:
    for message in pool_of(2).run(proofs.cancelled, False):
        assert "gradient" in message
        assert "would not be that of the serial run" in message
    assert pool_of(2).run(proofs.cancelled, True) == ["trained"] * 2


def test_predictions_are_proved_again_after_one_sample_and_refused_alike_on_all_ranks(
    pool_of: Any,
) -> None:
    of_ranks = pool_of(2).run(proofs.refused_predictions)
    assert of_ranks[0] == of_ranks[1]
    serial, seen = re.search(r"it is (\S+) there, while ranks give (\S+)\.", of_ranks[0]).groups()
    assert float(serial) != pytest.approx(float(seen))


def test_other_data_are_proved_too_and_a_refusal_is_not_forgotten(pool_of: Any) -> None:
    for ends in pool_of(2).run(proofs.fitted_without_and_with_weights):
        assert ends == ["trained", "refused", "refused", "trained"]


def test_a_warning_trains_all_the_same(pool_of: Any) -> None:
    [warnings, _] = pool_of(2).run(proofs.logged, "warn", "quotient")
    assert any("would not be that of the serial run" in text for _, text in warnings)


def test_one_line_says_what_was_proved_and_none_without_a_proof(pool_of: Any) -> None:
    [proved, _] = pool_of(2).run(proofs.logged, "error", "everything")
    lines = [text for level, text in proved if level == "INFO" and "proved" in text]
    assert len(lines) == 1
    assert "6 gradients" in lines[0]
    assert "1 by sum (" in lines[0]
    assert "/seen)" in lines[0]
    [silent, _] = pool_of(2).run(proofs.logged, "off", "quotient")
    assert not any("proved" in text for _, text in silent)


def test_a_step_that_cannot_run_on_some_samples_is_a_warning_with_the_reason(pool_of: Any) -> None:
    [records, _] = pool_of(2).run(proofs.logged, "error", "failing")
    warnings = [text for level, text in records if level == "WARNING"]
    assert any("could not be proved" in text and "unknown size" in text for text in warnings)


def test_a_value_that_was_zero_is_looked_at_again_in_later_epochs(pool_of: Any) -> None:
    [serial] = pool_of(1).run(proofs.counting_from_the_second_epoch, False)
    assert serial == 23
    assert pool_of(2).run(proofs.counting_from_the_second_epoch, True) == [serial] * 2


def test_a_layer_stays_as_it_was_compiled_until_the_next_compile(pool_of: Any) -> None:
    [(expected, _)] = pool_of(1).run(proofs.thawed_without_compile, False)
    for weights, warnings in pool_of(2).run(proofs.thawed_without_compile, True):
        assert_same(weights, expected)  # those of a frozen layer: not a rounding apart
        assert warnings == []


@pytest.mark.thorough  # each look at float8 is traced
def test_scales_of_float8_are_those_of_the_serial_run(pool_of: Any) -> None:
    [serial] = pool_of(1).run(proofs.in_float8, False)
    results = pool_of(2).run(proofs.in_float8, True)
    for result in results:
        assert len(result) == len(serial) == 6
        for own, expected in zip(result.values(), serial.values(), strict=True):
            # A mean or sum over ranks would be a third to twice of the largest value.
            np.testing.assert_allclose(own, expected, rtol=0.1)
        for own, master in zip(result.values(), results[0].values(), strict=True):
            np.testing.assert_array_equal(own, master)


def assert_same(own: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert_same(list(own.values()), list(expected.values()))  # names may be numbered
    elif isinstance(expected, list):
        for one, other in zip(own, expected, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(own, expected)


@pytest.mark.thorough  # a dense one trains with a proof and without in a test above
@pytest.mark.parametrize(
    "model",
    ["dense", "cnn", "sequence"],
)
def test_models_of_keras_steps_pass_and_train_the_same(model: str, pool_of: Any) -> None:
    case = cases.Case(model, "sgd", num_samples=25, epochs=1)
    without = pool_of(2).run(cases.run, case, True)
    assert_same(pool_of(2).run(proofs.with_proof, cases.run, case, True), without)


@pytest.mark.thorough
def test_rounding_that_a_deep_network_amplifies_is_no_finding(pool_of: Any) -> None:
    losses = pool_of(2).run(proofs.deep_network_of_random_images, timeout_s=900)
    assert losses[0] == losses[1]
    assert np.isfinite(losses[0])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "function",
    features.WITHOUT_ARGUMENTS,
    ids=lambda function: function.__name__,
)
def test_features_pass_and_train_the_same(function: Any, pool_of: Any) -> None:
    without = pool_of(3).run(function, True)
    assert_same(pool_of(3).run(proofs.with_proof, function, True), without)
