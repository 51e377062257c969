"""Fingerprints are equal where ranks have read the same global batch, and differ elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import tensorflow as tf
from cases import cases

import tnt_data
from tnt_data.elements.fingerprints import fingerprint_of

Data = tf.data.Dataset
Make = Callable[[], tf.data.Dataset]
NUMBERS = Data.range(11)


def fingerprints(dataset: tf.data.Dataset, rank: int = 0, size: int = 3) -> list[int]:
    distributed = tnt_data.distribute(dataset, rank, size, fingerprint=True)
    return [int(micro_batch.fingerprint) for micro_batch in distributed]


PIPELINES: dict[str, Make] = {
    "cut": lambda: NUMBERS.shuffle(4).batch(4),
    "picked": lambda: NUMBERS.shuffle(4).map(abs).batch(4),
    "padded": lambda: NUMBERS.map(abs).padded_batch(4),
    "structure": lambda: NUMBERS.map(lambda x: {"a": (x, tf.as_string(x)), "b": x > 3}).batch(4),
    "tuples": lambda: Data.zip((NUMBERS, NUMBERS.shuffle(3))).map(lambda x, y: x + y).batch(4),
    "pairs": lambda: NUMBERS.map(abs).batch(2).batch(2),
    "ragged": lambda: NUMBERS.map(tf.range).ragged_batch(4),
    "sparse": lambda: NUMBERS.map(lambda x: tf.sparse.from_dense(tf.range(x))).batch(4),
    "optional component": lambda: NUMBERS.batch(4).map(lambda x: (x, None)),
}


IN_LONG_TAIL = {"picked", "padded", "tuples", "pairs"}
"""Their neighbours are cut, ragged or have a structure of the same components."""


@cases("case", [case for case in PIPELINES if case not in IN_LONG_TAIL], thorough=PIPELINES)
def test_all_ranks_have_the_same_and_each_step_has_its_own(case: str) -> None:
    make = PIPELINES[case]
    by_rank = [fingerprints(make(), rank) for rank in range(3)]
    assert by_rank == [by_rank[0]] * 3
    assert len(set(by_rank[0])) == len(by_rank[0]) >= 3
    assert 0 not in by_rank[0]


@pytest.mark.parametrize("way", [lambda d: d, lambda d: d.map(abs)], ids=["cut", "picked"])
def test_other_samples_and_another_order_are_noticed(way: Callable[[Data], Data]) -> None:
    first = fingerprints(way(Data.from_tensor_slices([1, 2, 3, 4])).batch(2))
    other_sample = fingerprints(way(Data.from_tensor_slices([1, 5, 3, 4])).batch(2))
    other_order = fingerprints(way(Data.from_tensor_slices([2, 1, 3, 4])).batch(2))
    assert first[0] != other_sample[0] != other_order[0] != first[0]
    assert first[1] == other_sample[1] == other_order[1]


def test_one_number_is_folded_as_the_formula_says() -> None:
    def fold(number: int, hashed: int) -> int:
        return (31 * number + hashed) % 2**64

    hashes = [int.from_bytes(tf.fingerprint([[x]]).numpy()[0], "little") for x in (3, 4)]
    got = int(fingerprint_of((tf.constant(3), tf.constant(4))))
    assert got % 2**64 == fold(fold(1, hashes[0]), hashes[1])


@pytest.mark.parametrize(
    "component",
    [tf.zeros([0]), tf.constant([], tf.string), tf.constant(2.0, tf.bfloat16), tf.constant(1j)],
    ids=["empty", "no text", "bfloat16", "complex"],
)
def test_all_types_have_fingerprints(component: tf.Tensor) -> None:
    assert fingerprint_of(component).shape == []


def test_without_being_asked_for_it_is_zero() -> None:
    assert [int(one.fingerprint) for one in tnt_data.distribute(NUMBERS.batch(4), 0, 2)] == [0] * 3


def test_moved_augmentation_does_not_disturb_but_an_earlier_one_makes_it_useless(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def augment(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, tf.float32) + tf.random.uniform([])

    moved = NUMBERS.map(augment).batch(4)
    assert fingerprints(moved, 0) == fingerprints(moved, 1)
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "tnt_data"):
        assert fingerprints(NUMBERS.map(augment).cache().repeat(2).batch(11)) == [0, 0]
    assert "map(augment) draws random numbers" in caplog.records[-1].getMessage()
