"""Ranks that share batches, automatically or by hand, take the steps of the serial run."""

import keras  # noqa: F401  so that ranks are forks of a process that has imported TensorFlow
import numpy as np
import pytest
from cases import cases

from models.transformer import training_on_shares as shares
from models.transformer.data.records import write_records
from models.transformer.data.synthetic import make_synthetic_pairs

PADDED = {"batch_tokens": 60, "num_sentences": 21}  # 5 in a batch, 1 in the last
BUCKETED = {"batch_tokens": 40, "num_sentences": 17, "bucketed": True}  # 1 to 5 in a batch


def assert_equal(found, expected, tolerance):
    assert found["steps"] == expected["steps"]
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=tolerance)
    for weight, other in zip(found["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(weight, other, rtol=tolerance, atol=tolerance)


@cases(
    ("options", "size"),
    [pytest.param(BUCKETED, 2, id="bucketed-2")],
    thorough=[
        pytest.param(BUCKETED, 3, id="bucketed-3"),
        pytest.param(PADDED, 2, id="padded-2"),
        pytest.param(PADDED, 3, id="padded-3"),
    ],
)
def test_shares_by_hand_and_automatic_ones_equal_the_serial_run(options, size, pool_of):
    [serial] = pool_of(1).run(shares.train, False, False, None, options)
    automatic = pool_of(size).run(shares.train, True, False, None, options)
    by_hand = pool_of(size).run(shares.train, True, True, None, options)
    for of_rank, own in zip(automatic, by_hand, strict=True):
        assert_equal(of_rank, serial, 1e-5)
        assert_equal(own, of_rank, 1e-6)


@cases("by_hand", [False], thorough=[True])
def test_records_are_shared_like_other_data(by_hand, tmp_path, pool_of):
    pairs = make_synthetic_pairs(21, shares.VOCAB_SIZE, shares.MAX_LENGTH + 2)  # some are too long
    write_records(pairs, tmp_path, "train", 2)
    [serial] = pool_of(1).run(shares.train, False, False, str(tmp_path), PADDED)
    num_short = np.sum(np.maximum(*(side.lengths for side in pairs)) <= shares.MAX_LENGTH)
    assert 5 < num_short < 21
    # Keras takes one more in each epoch if it must look for the end.
    assert serial["steps"] == 2 * np.ceil(num_short / 5)
    for of_rank in pool_of(2).run(shares.train, True, by_hand, str(tmp_path), PADDED):
        assert_equal(of_rank, serial, 1e-5)
