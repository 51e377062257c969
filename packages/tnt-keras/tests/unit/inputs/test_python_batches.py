"""Batches of Python code: in one order on all ranks, and rows without the rest."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

from tnt_data import RowSplit
from tnt_keras.inputs.arrays import as_tensor
from tnt_keras.inputs.distributed_input import PythonInput
from tnt_keras.inputs.python_batches import (
    NumberedPyDataset,
    OrderedPyDataset,
    RankRowsPyDataset,
    batches_are_independent,
    differs_when_read_again,
    draws_random_numbers,
    makes_batches,
    split_numbers,
)


class Batches(keras.utils.PyDataset):
    """Batch number i of 5 holds the numbers 3 i to 3 i + 2; the last one has 2 of them."""

    def __init__(self, **workers: Any) -> None:
        super().__init__(**workers)
        self.told: list[str] = []

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.get_rows(index, slice(None))

    def num_samples(self, index: int) -> int:
        return 3 if index < 4 else 2

    def get_rows(self, index: int, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        x = np.arange(3 * index, 3 * index + self.num_samples(index))[rows]
        return x, -x

    def on_epoch_begin(self) -> None:
        self.told.append("begin")

    def on_epoch_end(self) -> None:
        self.told.append("end")


def firsts(batches: Any) -> list[int]:
    return [int(batches[index][0][0]) // 3 for index in range(batches.num_batches)]


def test_order_is_that_of_keras_and_draws_as_often() -> None:
    random.seed(5)
    expected = []
    for _ in range(3):
        order = list(range(5))
        random.shuffle(order)
        expected.append(order)
    after = random.random()
    random.seed(5)
    batches = OrderedPyDataset(Batches(), shuffle=True)
    assert firsts(batches) == list(range(5))  # Keras looks at the first ones
    orders = []
    for _ in range(3):
        batches.draw_order()
        orders.append(firsts(batches))
    assert orders == expected
    assert random.random() == after


@pytest.mark.parametrize("kept", [None, [], {}, {"noise": [np.random.default_rng(0)]}])
def test_batches_are_independent_unless_a_generator_is_kept_somewhere(kept: Any) -> None:
    batches = Batches()
    batches.kept = kept
    assert batches_are_independent(batches) is not bool(kept)


def test_order_is_kept_without_shuffling() -> None:
    batches = OrderedPyDataset(Batches(), shuffle=False)
    batches.draw_order()
    assert firsts(batches) == list(range(5))


def test_workers_are_those_of_the_original_which_is_told_of_epochs() -> None:
    original = Batches(workers=3, use_multiprocessing=True, max_queue_size=7)
    batches = OrderedPyDataset(original, shuffle=True)
    assert (batches.workers, batches.use_multiprocessing, batches.max_queue_size) == (3, True, 7)
    batches.on_epoch_begin()
    batches.on_epoch_end()
    assert original.told == ["begin", "end"]


def test_rows_of_all_ranks_are_the_batch_and_a_duplicate_counts_for_nothing() -> None:
    for index in range(5):
        whole = Batches()[index][0].tolist()
        for rank in range(3):
            rows = RankRowsPyDataset(Batches(), False, RowSplit(rank, 3, 3))
            (x, y), numbers = split_numbers(rows[index])
            assert numbers.tolist() == [[index + 1, len(whole[rank::3]), len(whole)]]
            assert x.tolist() == (whole[rank::3] or whole[:1])
            assert y.tolist() == (-x).tolist()


def test_rows_of_several_lanes_are_asked_for_lane_by_lane_and_joined() -> None:
    for index in range(5):
        whole = Batches()[index][0]
        for rank in range(2):
            split = RowSplit(rank, 2, 6)
            rows = RankRowsPyDataset(Batches(), False, split)
            (x, y), numbers = split_numbers(rows[index])
            assert numbers.tolist() == [[index + 1, split.num_rows(len(whole)), len(whole)]]
            assert x.tolist() == whole[list(split.rows(len(whole)))].tolist()
            assert y.tolist() == (-x).tolist()


COMPONENTS: dict[str, tuple[Callable[[slice], Any], Callable[[Any], Any]]] = {
    "sparse matrix": (lambda rows: scipy.sparse.eye(5).tocsr()[rows], tf.sparse.to_dense),
    "ragged tensor": (
        lambda rows: tf.ragged.range(tf.range(5)[rows]),
        lambda x: x.to_tensor(0, [None, 4]),
    ),
    "scalar": (lambda rows: 7.0, lambda x: x),
}


@pytest.mark.parametrize("kind", COMPONENTS)
def test_rows_of_lanes_are_joined_whatever_they_are_made_of(kind: str) -> None:
    make, as_dense = COMPONENTS[kind]

    class Others(Batches):
        def num_samples(self, index: int) -> int:
            return 5

        def get_rows(self, index: int, rows: slice) -> Any:
            return np.arange(5)[rows], make(rows)

    rows = RankRowsPyDataset(Others(), False, RowSplit(0, 2, 4))
    (x, y), _ = split_numbers(rows[0])
    assert x.tolist() == [0, 4, 1]
    expected = make(slice(None))
    if kind != "scalar":
        expected = np.asarray(as_dense(as_tensor(expected)))[[0, 4, 1]]
    assert np.asarray(as_dense(y)).tolist() == np.asarray(expected).tolist()


FORMS: dict[str, Any] = {
    "tuple": (np.zeros(3), np.ones(3)),
    "list": [np.zeros(3), np.ones(3)],
    "inputs only": np.zeros(3),
    "nested": ({"a": np.zeros(3)}, (np.ones(3), np.ones(3))),
    "dictionary": {"a": np.zeros(3), "b": np.ones(3)},
}


@pytest.mark.parametrize("form", FORMS)
def test_numbered_batch_is_the_one_that_keras_makes_of_the_original(form: str) -> None:
    class Same(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            return FORMS[form]

    def read(batches: Any) -> Any:
        return next(iter(PythonInput(batches, None, lambda whole: whole).get_tf_dataset()))

    batch, numbers = split_numbers(read(NumberedPyDataset(Same(), shuffle=False)))
    expected = read(Same())
    assert numbers.numpy().tolist() == [[1]]
    keras.tree.assert_same_structure(batch, expected)
    for got, wanted in zip(keras.tree.flatten(batch), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(got, wanted)


class Noisy(Batches):
    def get_rows(self, index: int, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        x, y = super().get_rows(index, rows)
        return x + np.random.random(len(x)), y


class SeededNoise(Noisy):
    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        np.random.seed(index)
        return super().__getitem__(index)


def test_random_numbers_in_methods_are_found_unless_something_seeds_them() -> None:
    assert draws_random_numbers(Noisy())
    assert not draws_random_numbers(SeededNoise())
    assert not draws_random_numbers(Batches())
    assert draws_random_numbers(np.random.random() for _ in range(3))
    assert not draws_random_numbers(x for x in range(3))


@pytest.mark.parametrize(("seed", "is_random"), [(None, True), (3, False)])
def test_a_generator_in_an_attribute_that_nothing_has_seeded_is_found(
    seed: int | None, is_random: bool
) -> None:
    class OwnNoise(Batches):
        def __init__(self) -> None:
            super().__init__()
            self.rng = np.random.default_rng(seed)

        def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
            x, y = super().__getitem__(index)
            return x + self.rng.normal(size=len(x)), y

    assert draws_random_numbers(OwnNoise()) is is_random


def test_batches_are_made_by_py_datasets_and_generators() -> None:
    assert makes_batches(batch for batch in ())
    assert makes_batches(Batches())
    assert not makes_batches(np.zeros(3))


def differs(data: Any, steps: int | None = None, *, is_validation: bool = False) -> bool:
    return differs_when_read_again(data, steps, is_validation=is_validation)


def test_a_seed_that_is_none_seeds_nothing() -> None:
    for seed, is_random in ((None, True), (3, False)):
        batches = SeededNoise()
        batches.seed = seed
        assert differs(batches) is is_random


def test_workers_that_share_a_generator_draw_in_no_order() -> None:
    for workers, is_random in ((1, False), (2, True)):
        batches = Batches(workers=workers)
        batches.rng = np.random.default_rng(0)
        assert differs(batches) is is_random


def test_a_generator_that_validates_again_and_again_goes_on_where_keras_has_read_to() -> None:
    def numbers() -> Any:
        yield from range(3)

    assert differs(numbers(), 2, is_validation=True)
    assert not differs(numbers(), None, is_validation=True)
    assert not differs(numbers(), 2)


def test_rows_that_were_not_asked_for_are_refused() -> None:
    class Other(Batches):
        def get_rows(self, index: int, rows: slice) -> tuple[np.ndarray, np.ndarray]:
            x, y = super().get_rows(index, rows)
            return np.append(x, x[:1]), y

    with pytest.raises(ValueError, match=r"`get_rows` must return.*\[3, 2\] instead of 2"):
        RankRowsPyDataset(Other(), False, RowSplit(0, 2, 2))[0]
