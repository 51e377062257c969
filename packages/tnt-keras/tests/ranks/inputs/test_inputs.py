"""All kinds of input give on several ranks what they give in serial Keras; mistakes are named."""

from __future__ import annotations

from typing import Any

import input_mistakes
import input_warnings
import kinds_of_input
import numpy as np
import own_samples
import pytest
import reading_during_steps
from cases import cases
from classifiers import NUM_SAMPLES
from forms_of_samples import BATCH_SIZE
from rank_pools import ENVIRONMENT
from serial_results import assert_close, assert_serial, of_all_sizes

from tnt_comm.testing import observe_ranks

REMEDIES = ["`tnt_distribute_dataset=False`", "`keras.utils.set_random_seed(seed)`"]
IN_LONG_TAIL = (
    "generator",
    "dataset of unknown length",
    "decoded",
    "PyDataset",
    "PyDataset with workers",
    "PyDataset with processes",
    "PyDataset without end",
)
"""Trainings whose neighbours are in the short run: arrays, a dataset and rows of a PyDataset."""


@of_all_sizes
@cases(
    "kind",
    [kind for kind in kinds_of_input.FITS if kind not in IN_LONG_TAIL],
    thorough=kinds_of_input.FITS,
)
def test_training_on_any_input_is_that_of_serial_keras(kind: str, size: int, pool_of: Any) -> None:
    [expected] = pool_of(1).run(kinds_of_input.train, kind, False)
    for result in pool_of(size).run(kinds_of_input.train, kind, True):
        for name in ("weights", "history"):
            assert_close(result[name], expected[name], 1e-5, name)
        if size > 1:  # tuning may keep the end of an epoch waiting
            assert set(result["tuning"]) == {False}


def test_the_step_that_finds_the_end_counts_as_in_serial_keras(pool_of: Any) -> None:
    [serial] = pool_of(1).run(kinds_of_input.train_to_an_unknown_end, False)
    steps = NUM_SAMPLES // BATCH_SIZE
    assert serial["iterations"] == 2 * (steps + 1)
    for result in pool_of(2).run(kinds_of_input.train_to_an_unknown_end, True):
        assert result["iterations"] == serial["iterations"]
        assert_close(result["weights"], serial["weights"], 1e-5, "weights")
        np.testing.assert_allclose(result["loss"], serial["loss"], rtol=1e-5)


@of_all_sizes
@cases("kind", ["PyDataset"], thorough=("rows of a PyDataset", "generator"))
def test_evaluation_and_prediction_are_those_of_serial_keras(
    kind: str, size: int, pool_of: Any
) -> None:
    [expected] = pool_of(1).run(kinds_of_input.evaluate_and_predict, kind, False)
    for result in pool_of(size).run(kinds_of_input.evaluate_and_predict, kind, True):
        assert result["predict"].shape == (NUM_SAMPLES, 3)
        for name, value in expected.items():
            assert_close(result[name], value, 1e-5, name)


@cases("kind", ["dictionaries"], thorough=["lists"])
def test_structures_of_arrays_are_shared(kind: str, pool_of: Any) -> None:
    assert_serial(kinds_of_input.structures, pool_of, kind)


@pytest.mark.parametrize(
    "function",
    [kinds_of_input.unbatched, kinds_of_input.arrays_with_micro_batches],
    ids=lambda function: function.__name__,
)
def test_batch_is_the_micro_batch_times_the_number_of_ranks(function: Any, pool_of: Any) -> None:
    assert_serial(function, pool_of)


def test_rows_of_a_py_dataset_are_made_by_one_rank_each(pool_of: Any) -> None:
    rows_by_rank = pool_of(2).run(kinds_of_input.rows_made)
    batches = [range(b, min(b + 5, NUM_SAMPLES)) for b in range(0, NUM_SAMPLES, 5)]
    for rank, rows in enumerate(rows_by_rank):
        # The last batch is a single row, with which the rank that has none computes too.
        assert rows == sorted(row for batch in batches for row in batch[rank::2] or batch[:1])


@cases(
    "kind",
    ["PyDataset", "PyDataset in parts of its length"],
    thorough=["arrays", "PyDataset with workers", "rows of a PyDataset"],
)
def test_shuffled_order_is_that_of_serial_keras(kind: str, pool_of: Any) -> None:
    results = assert_serial(kinds_of_input.shuffled, pool_of, kind)
    assert_serial(kinds_of_input.shuffled, pool_of, kind, size=1)
    assert results[0]["next draw"] == results[1]["next draw"]


@of_all_sizes
@cases("kind", ["arrays"], thorough=["PyDataset"])
def test_next_call_of_fit_has_another_order_which_is_the_same_on_all_ranks(
    kind: str, size: int, pool_of: Any
) -> None:
    [(first, second)] = pool_of(1).run(kinds_of_input.orders_of_calls, kind)
    assert not np.allclose(first, second, rtol=1e-3)
    for losses in pool_of(size).run(kinds_of_input.orders_of_calls, kind):
        np.testing.assert_allclose(losses, [first, second], rtol=1e-5)


def test_generators_stay_in_step_from_one_call_to_the_next(pool_of: Any) -> None:
    first, second = pool_of(2).run(kinds_of_input.generators_that_go_on)
    assert first == second


@cases("kind", ["dataset"], thorough=("generator", "PyDataset", "micro-batches"))
def test_samples_that_users_share_by_themselves_count_as_in_serial(kind: str, pool_of: Any) -> None:
    assert_serial(own_samples.own_samples, pool_of, kind, size=2)


def test_own_predictions_are_for_own_samples(pool_of: Any) -> None:
    for rank, (own, expected) in enumerate(pool_of(2).run(own_samples.own_predictions)):
        assert len(own) == 3 + 4 * rank
        np.testing.assert_allclose(own, expected, rtol=0, atol=1e-6)


@pytest.mark.thorough  # arrays are verified in test_global_seeds
@pytest.mark.parametrize("kind", ["arrays", "decoded", "PyDataset"])
def test_equal_inputs_are_verified(kind: str, pool_of: Any) -> None:
    [expected] = pool_of(1).run(kinds_of_input.train, kind, False)
    for result in pool_of(2).run(kinds_of_input.train, kind, True, True):
        assert_close(result["weights"], expected["weights"], 1e-5, "weights")


@cases(
    ("mistake", "words"),
    [
        ("unequal own datasets", ["number of steps", "4, 3"]),
        ("own data with micro-batch size", ["not distributed", "5"]),
        ("part of arrays", ["`x`: the arrays of ranks [1] differ from those of rank 0", *REMEDIES]),
        (
            "other arrays for validation",
            ["`validation_data[0]`: the arrays", "tnt_distribute_validation_dataset=False"],
        ),
        ("rank 0 and own data", ['tnt_read="rank 0"', "tnt_distribute_dataset=False"]),
        ("other seed on rank 1", ["shuffle(20) with seed", "Build it in the same way"]),
        ("already shared", ["micro-batches", "tnt_distribute_dataset=False"]),
        ("shared twice", ["shard(2, 0)", "shard(2, 1)", "tnt_distribute_dataset=False"]),
    ],
    thorough=[
        ("other weights", ["`sample_weight`: the arrays of ranks [1] differ", *REMEDIES]),
        ("part of arrays, all of it compared", ["arrays of ranks [1] differ", *REMEDIES]),
        ("other arrays of a dataset", ["`x`: the arrays of ranks [1] differ", *REMEDIES]),
        ("read by rank 1", ["`tnt_read` must be"]),
    ],
)
def test_mistake_is_named_before_training(mistake: str, words: list[str], pool_of: Any) -> None:
    for kind, text in pool_of(2).run(input_mistakes.error_of, mistake):
        assert kind == "ValueError", text
        assert all(word in text for word in words)


@cases("method", ["train_on_batch"], thorough=["test_on_batch", "predict_on_batch"])
def test_a_batch_of_which_each_rank_has_another_part_is_noticed(method: str, pool_of: Any) -> None:
    for kind, text in pool_of(2).run(input_mistakes.error_of_batch, method):
        assert kind == "ValueError", text
        assert "the contents of `x` of ranks [1] differ from those of rank 0" in text
        assert "give all ranks the whole batch" in text
        assert "`keras.utils.set_random_seed(seed)`" in text


DAMAGED_IN_SHORT = ("PyDataset with workers",)
"""The kind with most ways to lose an error; the others belong to the long tail."""


def errors_of_ranks(preloaded: Any, function: Any, case: str) -> list[tuple[str, str]]:
    """The errors of two ranks in a world of their own, which do not go on together."""
    reports = observe_ranks(function, 2, case, env=ENVIRONMENT, timeout_s=120, preloaded=preloaded)
    hanging = [report.traceback for report in reports if report.value is None]
    assert not hanging, "\n".join(map(str, hanging))
    return [report.value for report in reports]


@cases(
    "mistake",
    ["unequal own datasets of unknown length"],
    thorough=["unequal evaluation", "other length of a PyDataset"],
)
def test_rank_without_data_does_not_make_others_wait(mistake: str, preloaded: Any) -> None:
    (kind, text), (other_kind, other_text) = errors_of_ranks(
        preloaded, input_mistakes.error_of, mistake
    )
    assert kind in ("ValueError", "PeerLostError"), text
    assert other_kind == "ValueError", other_text
    assert "Rank 1 has no more data, but ranks [0] continue" in other_text
    assert kind != "ValueError" or "different numbers of steps" in text


@cases(
    "mistake",
    ["other order in the second epoch"],
    thorough=["other order of batches", "look at a shuffled dataset"],
)
def test_different_data_are_noticed_when_inputs_are_verified(mistake: str, preloaded: Any) -> None:
    results = errors_of_ranks(preloaded, input_mistakes.error_of, mistake)
    assert any("read different data in one step" in text for _, text in results), results
    assert all(kind in ("ValueError", "PeerLostError") for kind, _ in results), results


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("other sizes of generated batches", "Numbers of samples: 6 on rank 0, 5 on rank 1."),
        ("other widths of generated batches", "read different data in one step"),
    ],
)
def test_batches_of_python_code_that_do_not_fit_together_are_an_error_at_once(
    mistake: str, words: str, preloaded: Any
) -> None:
    for kind, text in errors_of_ranks(preloaded, input_mistakes.error_of, mistake):
        assert kind == "ValueError", text
        assert words in text


@cases("mistake", ["other batches of a generator"], thorough=["other batches of a PyDataset"])
def test_different_batches_of_python_code_are_noticed_by_default(
    mistake: str, preloaded: Any
) -> None:
    results = errors_of_ranks(preloaded, input_mistakes.error_of, mistake)
    assert any("read different data in one step" in text for _, text in results), results
    assert all(kind in ("ValueError", "PeerLostError") for kind, _ in results), results


def test_batches_that_differ_on_purpose_are_taken_as_they_are(pool_of: Any) -> None:
    first, second = pool_of(2).run(input_mistakes.losses_of_other_batches_on_purpose)
    assert first == second


@cases(
    ("case", "words"),
    [
        ("another learning rate", "All ranks continue with that of rank 0"),
        ("random numbers", ""),
        ("own samples", "`verify_inputs` has no effect"),
        ("rows of a PyDataset", "compare only the order of the batches"),
        ("generator", "the number of batches is unknown"),
        ("nothing", ""),
    ],
    thorough=[
        ("unknown length", "the number of batches is unknown"),
    ],
)
def test_what_ranks_may_not_share_is_reported(case: str, words: str, pool_of: Any) -> None:
    for messages in pool_of(2).run(input_warnings.warnings_of, case):
        assert len(messages) == bool(words)
        assert words in "".join(messages)


@cases(
    "kind",
    ["PyDataset with workers"],
    thorough=["generator", "PyDataset", "rows of a PyDataset"],
)
def test_next_batch_is_made_while_a_step_runs(kind: str, pool_of: Any) -> None:
    for was_made in pool_of(2).run(reading_during_steps.batches_made_during_steps, kind):
        assert was_made == [True] * (reading_during_steps.STEPS - 1)


@cases(
    "kind",
    [kind for kind in reading_during_steps.KINDS if kind in DAMAGED_IN_SHORT],
    thorough=reading_during_steps.KINDS,
)
def test_error_in_a_batch_ends_training_on_all_ranks(kind: str, preloaded: Any) -> None:
    (_, other_text), (_, text) = errors_of_ranks(
        preloaded, reading_during_steps.error_in_a_batch, kind
    )
    assert "batch 3 is damaged" in text
    assert "needs rank 1" in other_text
