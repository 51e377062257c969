"""What a distributed model is, saves, starts from and decides."""

from __future__ import annotations

import pathlib
from typing import Any

import behaviours
import classifiers
import numpy as np
import pytest
from rank_pools import ENVIRONMENT
from serial_results import assert_close, assert_serial

from tnt_comm.testing import observe_ranks


def _assert_all_equal(lists: list[list[np.ndarray]]) -> None:
    for arrays in lists[1:]:
        for own, first in zip(arrays, lists[0], strict=True):
            np.testing.assert_array_equal(own, first)


def test_distributed_model_is_the_given_keras_model(pool_of: Any) -> None:
    for facts in pool_of(2).run(behaviours.kinds):
        assert all(facts.values()), facts


def test_shuffle_without_seed_is_the_same_on_any_number_of_ranks(pool_of: Any) -> None:
    [on_one] = pool_of(1).run(behaviours.unseeded_shuffle)
    on_two = pool_of(2).run(behaviours.unseeded_shuffle)
    _assert_all_equal(on_two)
    for actual, wanted in zip(on_two[0], on_one, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5)


def test_all_ranks_start_from_the_weights_of_the_master(pool_of: Any) -> None:
    results = pool_of(2).run(behaviours.different_initial_weights)
    master_weights = results[0][0]
    _assert_all_equal([master_weights, *(after for _, after in results)])


def test_what_the_first_step_builds_starts_from_the_values_of_the_master(pool_of: Any) -> None:
    [expected] = pool_of(1).run(behaviours.built_by_the_first_step, False)
    for weights in pool_of(2).run(behaviours.built_by_the_first_step, True):
        for one, other in zip(weights, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_all_optimizers_of_a_step_are_synchronized_after_every_compile(pool_of: Any) -> None:
    [plain] = pool_of(1).run(behaviours.optimizers_kept_by_a_second_compile, False)
    spoilt = pool_of(2).run(behaviours.optimizers_kept_by_a_second_compile, True)
    for result in spoilt:
        assert result["known"] == [[1, 1], [1, 1]]
        assert_close(result["variables"], plain["variables"])
    _assert_all_equal([result["variables"] for result in spoilt])


def test_file_of_weights_can_be_removed_after_loading(pool_of: Any, tmp_path: pathlib.Path) -> None:
    assert pool_of(2).run(behaviours.load_and_remove, str(tmp_path)) == [True, True]
    assert list(tmp_path.iterdir()) == []


def test_failure_to_load_weights_is_raised_on_every_rank(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    name = "no\udcc3text.unknown"
    (tmp_path / name).touch()
    (own_kind, own_text), (kind, text) = pool_of(2).run(
        behaviours.load_what_cannot_be_read, str(tmp_path), name
    )
    assert kind == own_kind == "ValueError"
    assert name in own_text
    assert "Rank 1: rank 0 could not read" in text
    cause = own_text.encode(errors="backslashreplace").decode()
    assert text.endswith(f"{cause} [other-rank-failed]")


def test_weights_that_only_the_master_loads_are_an_error_on_every_rank(
    preloaded: Any, tmp_path: pathlib.Path
) -> None:
    reports = observe_ranks(
        behaviours.load_on_the_master_only,
        2,
        str(tmp_path),
        env=ENVIRONMENT,
        timeout_s=120,
        preloaded=preloaded,
    )
    for report in reports:
        kind, text = report.value
        assert kind == "MismatchError", text
        assert "load_weights" in text
        assert "fit" in text


def test_existing_file_is_kept_without_overwrite(pool_of: Any, tmp_path: pathlib.Path) -> None:
    for kind, text in pool_of(2).run(behaviours.save_twice, str(tmp_path)):
        assert kind == "FileExistsError"
        assert "model.keras" in text


def test_failure_to_write_is_raised_on_every_rank(pool_of: Any, tmp_path: pathlib.Path) -> None:
    for kind, text in pool_of(2).run(behaviours.save_into_nothing, str(tmp_path)):
        assert kind in ("FileNotFoundError", "OSError")
        assert "missing" in text


def test_callbacks_decide_alike_and_write_once(pool_of: Any, tmp_path: pathlib.Path) -> None:
    for result in pool_of(2).run(behaviours.with_callbacks, str(tmp_path)):
        # No epoch improves the loss by 10: the first is the best one, then 2 of patience.
        assert result["epochs"] == 3
        np.testing.assert_allclose(result["learning_rate"], 0.1 * 0.5**3, rtol=1e-6)
        assert result["files"] == ["best.keras", "log.csv"]
        assert result["log_lines"] == 1 + 3
        assert result["loaded"] == 10 * 8 + 8 + 8 * 3 + 3


@pytest.mark.thorough
def test_copies_and_exports_are_plain_keras(pool_of: Any, tmp_path: pathlib.Path) -> None:
    for facts in pool_of(2).run(behaviours.copies, str(tmp_path)):
        assert all(facts.values()), facts


def test_names_seeds_and_descriptions_of_own_layers_may_differ(pool_of: Any) -> None:
    assert_serial(behaviours.training_with_other_names_and_seeds, pool_of)


def test_moving_statistics_are_the_mean_over_all_samples(pool_of: Any) -> None:
    x, _ = classifiers.samples()
    results = pool_of(2).run(behaviours.batch_norm, False, 11)
    _assert_all_equal([result["weights"] for result in results])
    expected = np.zeros(10)
    for batch in (x[:11], x[11:]):
        expected = 0.5 * expected + 0.5 * batch.mean(axis=0)
    np.testing.assert_allclose(results[0]["moving_mean"], expected, rtol=1e-5, atol=1e-6)


def test_master_warns_of_batch_statistics_from_less_than_16_samples(pool_of: Any) -> None:
    master, other = pool_of(2).run(behaviours.batch_norm, False, 21)
    assert len(master["messages"]) == 1
    assert "10 samples of 21 on 2 ranks" in master["messages"][0]
    assert "`synchronized=True`" in master["messages"][0]
    assert other["messages"] == []


def test_synchronized_batch_statistics_from_few_samples_need_no_warning(pool_of: Any) -> None:
    assert pool_of(2).run(behaviours.batch_norm, True, 4)[0]["messages"] == []


def test_the_first_step_tells_once_what_is_exchanged(pool_of: Any) -> None:
    master, other = pool_of(2).run(behaviours.explained)
    told = [m for m in master["messages"] if "train_step on" in m or "batch normalisation" in m]
    assert told[0].startswith("train_step on 2 ranks: 6 gradients (")
    assert told[0].endswith(" within the step")
    assert told[1:] == [
        "2 batch normalisations use the rows of the whole batch, as on one rank",
        "1 batch normalisation uses each rank's rows, as DDP and Horovod do; "
        'batch_norm="global" gives the serial result',
        told[-1],  # there are few samples
    ]
    assert master["of the model"].startswith(told[0] + "\n\nkind      bytes")
    assert master["of the function"].startswith("mean on 2 ranks: 1 value (4 B) at the end")
    assert (other["of the model"], other["of the function"]) == ("", "")


def test_the_check_tells_a_wrong_rule(preloaded: Any) -> None:
    reports = observe_ranks(
        behaviours.checked_with_a_wrong_rule, 2, env=ENVIRONMENT, preloaded=preloaded
    )
    for report in reports:
        [error] = report.value
        assert "a bug in Tarantella: result 0 (Tanh 'PartitionedCall/wrong'" in error
