"""Arrays as input: packed, shared by position, split for validation."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import cases

from tnt_keras.inputs.arrays import Arrays, digest_of, is_array, seeds_of_keras, split_off_last


def test_samples_at_positions_keep_structure_and_types() -> None:
    x = {"a": np.arange(6.0), "b": [np.arange(12).reshape(6, 2)]}
    ragged = tf.RaggedTensor.from_row_lengths(tf.range(15), [0, 1, 2, 3, 4, 5])
    arrays = Arrays.pack(x, ragged, None)
    inputs, targets = arrays.rows_at(tf.constant([4, 1], tf.int64))
    assert inputs["a"].numpy().tolist() == [4.0, 1.0]
    assert inputs["a"].dtype == keras.config.floatx()
    assert inputs["b"][0].numpy().tolist() == [[8, 9], [2, 3]]
    assert targets.to_list() == [[6, 7, 8, 9], [0]]
    assert arrays.num_samples == 6


def test_batch_spec_has_an_open_first_axis() -> None:
    spec = Arrays.pack(np.zeros((6, 2), "float32"), np.zeros(6, "int32"), None).batch_spec
    assert [one.shape.as_list() for one in spec] == [[None, 2], [None]]


def test_positions_are_in_order_or_shuffled() -> None:
    arrays = Arrays.pack(np.zeros((7, 1)), None, None)
    plain = [batch.tolist() for batch in arrays.positions(3, shuffle=False).as_numpy_iterator()]
    assert plain == [[0, 1, 2], [3, 4, 5], [6]]
    batches = list(arrays.positions(3, shuffle=True).as_numpy_iterator())
    assert sorted(np.concatenate(batches)) == list(range(7))


@cases(
    ("seed", "num_samples", "batch_size"),
    [(3, 7, 3), (0, 2, 5), (2**40 + 5, 6, 3)],
    thorough=[
        (seed, *sizes)
        for seed in (0, 3, 2**31 - 1, 2**40 + 5)
        for sizes in ((7, 3), (6, 3), (2, 5))
    ],
)
def test_positions_are_those_that_keras_draws_from_a_global_seed(
    seed: int, num_samples: int, batch_size: int
) -> None:
    tf.random.set_seed(seed)
    x = np.arange(num_samples, dtype="float32")[:, None]
    noted: list[list[float]] = []

    class Noting(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            noted.append(data[:, 0].numpy().tolist())
            return {"loss": 0.0}

    model = Noting()
    model.compile(run_eagerly=True)
    model.fit(x, batch_size=batch_size, epochs=2, verbose=0)
    seeds = seeds_of_keras()
    assert seeds is not None
    batches = Arrays.pack(x, None, None).positions_as_keras_shuffles(batch_size, seeds)
    assert int(batches.cardinality()) == -(-num_samples // batch_size)
    assert [batch.tolist() for _ in range(2) for batch in batches.as_numpy_iterator()] == noted


def test_without_a_global_seed_keras_has_none() -> None:
    assert seeds_of_keras() is None


def test_differing_numbers_of_samples_are_refused() -> None:
    with pytest.raises(ValueError, match=r"same number of samples.*x: 3; y: 4"):
        Arrays.pack(np.zeros((3, 1)), np.zeros(4), None)


@pytest.mark.parametrize("fraction", [0.2, 0.25, 0.5, 0.01])
def test_last_samples_are_split_off_as_keras_does(fraction: float) -> None:
    at = int(np.floor(10 * (1 - fraction)))
    (first, nothing), (last, _) = split_off_last((np.arange(10), None), fraction)
    assert (first.tolist(), last.tolist()) == (list(range(at)), list(range(at, 10)))
    assert nothing is None


def test_empty_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.95.* leaves one part empty"):
        split_off_last((np.arange(10), None), 0.95)


def test_what_counts_as_an_array() -> None:
    assert is_array(np.zeros(3))
    assert is_array(tf.zeros([3, 2]))
    assert is_array(tf.ragged.constant([[1], []]))
    assert not is_array(3)
    assert not is_array(np.float32(3))
    assert not is_array("text")


def test_digests_tell_other_samples_and_another_order() -> None:
    x = np.random.default_rng(3).normal(size=(1000, 2))

    def digests(x: np.ndarray, rows: int | None = None) -> list[bytes]:
        return Arrays.pack(x, {"y": -x}, np.ones(len(x))).digests(rows)

    assert digests(x) == digests(x.copy())
    other, shuffled = x.copy(), x[::-1]
    other[517, 1] += 1e-5
    for different in (other, shuffled):
        is_other = [a != b for a, b in zip(digests(x), digests(different), strict=True)]
        assert is_other == [True, True, False]
    assert digests(x, 64) == digests(x.copy(), 64)
    assert digests(x, 64) != digests(shuffled, 64)
    assert digests(x[:5], 64) == digests(x[:5])


@pytest.mark.parametrize(
    "make",
    [
        lambda x: tf.sparse.from_dense(x),
        lambda x: tf.RaggedTensor.from_tensor(x),
        lambda x: {"a": tf.constant(x), "b": np.array([[str(row)] for row in x], object)},
        lambda x: np.repeat(x, 4000, axis=1),
    ],
    ids=["sparse", "ragged", "strings", "wide"],
)
def test_a_digest_of_some_numbers_tells_samples_of_any_kind(make: Any) -> None:
    x = np.arange(40.0).reshape(20, 2)
    assert digest_of(make(x), 8, 1024) == digest_of(make(x.copy()), 8, 1024)
    assert digest_of(make(x), 8, 1024) != digest_of(make(x[::-1].copy()), 8, 1024)
