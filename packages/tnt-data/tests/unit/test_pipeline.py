"""A dataset that is asked several questions is read once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

import tnt_data
from tnt_data import NotBatchedError, Pipeline
from tnt_data.transformations import read

Data = tf.data.Dataset


@pytest.fixture
def num_read(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each dataset object was described, by its id."""
    counts: Counter[int] = Counter()
    describe = read._describe

    def describe_and_count(inspected, *arguments):  # type: ignore[no-untyped-def]
        counts[id(inspected.dataset)] += 1
        return describe(inspected, *arguments)

    monkeypatch.setattr(read, "_describe", describe_and_count)
    return counts


def numbers() -> tf.data.Dataset:
    return Data.range(10).shuffle(10, seed=3).map(lambda x: x + 1)


def test_pipeline_is_read_once_for_all_questions(num_read: Counter[int]) -> None:
    pipeline = Pipeline(numbers().batch(4).prefetch(2))
    assert num_read.total() == 0
    assert pipeline.batch_size == 4
    assert pipeline.is_batched
    assert pipeline.order == "shuffle(10) with seed 3, batch(4)"
    for rank in range(3):
        pipeline.distribute(rank, 3)
    pipeline.explain(3)
    assert list(num_read.values()) == [1] * 5


def test_pipeline_that_is_batched_on_the_way_is_read_once(num_read: Counter[int]) -> None:
    pipeline = Pipeline(numbers())
    assert not pipeline.is_batched
    assert pipeline.batch_size is None
    dataset = pipeline.distribute(1, 2, micro_batch_size=2)
    assert [int(one.num_global) for one in dataset] == [4, 4, 2]
    assert sorted(num_read.values()) == [1] * 4  # range, shuffle, map, and the batch


def test_pipeline_says_what_the_functions_say() -> None:
    dataset = numbers().batch(4)
    pipeline = Pipeline(dataset)
    assert pipeline.dataset is dataset
    assert pipeline.batch_size == tnt_data.global_batch_size(dataset)
    assert pipeline.is_batched == tnt_data.is_batched(dataset)
    assert pipeline.order == tnt_data.describe_order(dataset)
    assert pipeline.explain(3, seed=5) == tnt_data.explain(dataset, 3, seed=5)
    unbatched = Pipeline(numbers())
    text = tnt_data.explain(numbers(), 3, micro_batch_size=2)
    assert unbatched.explain(3, micro_batch_size=2) == text


def test_same_question_has_the_same_dataset_as_its_answer() -> None:
    dataset = numbers().batch(4)
    pipeline = Pipeline(dataset)
    first = pipeline.distribute(0, 2, seed=7)
    assert pipeline.distribute(0, 2, seed=7) is first
    assert Pipeline(dataset).distribute(0, 2, seed=7) is first
    assert tnt_data.distribute(dataset, 0, 2, seed=7) is first
    assert pipeline.distribute(0, 2, seed=8) is not first
    assert pipeline.distribute(1, 2, seed=7) is not first


def test_arrays_of_two_pipelines_are_compared_by_a_number() -> None:
    def fingerprint_of(array: np.ndarray, names: list[str]) -> int:
        samples = Data.from_tensor_slices((array, names)).shuffle(3).batch(2)
        return Pipeline(samples).fingerprint_of_arrays(2)

    first = fingerprint_of(np.arange(4.0), ["a"] * 4)
    assert fingerprint_of(np.arange(4.0), ["b"] * 4) == first
    assert fingerprint_of(np.arange(4.0)[::-1], ["a"] * 4) != first
    assert Pipeline(numbers()).fingerprint_of_arrays(2) == 1


def test_wrong_use_has_the_errors_of_the_functions() -> None:
    with pytest.raises(TypeError, match=r"Only a tf\.data\.Dataset can be distributed"):
        Pipeline([1, 2])
    with pytest.raises(ValueError, match="rank must lie in"):
        Pipeline(numbers().batch(4)).distribute(2, 2)
    with pytest.raises(NotBatchedError, match="per rank and step"):
        Pipeline(numbers()).distribute(0, 2)
    with pytest.raises(NotBatchedError):
        Pipeline(numbers()).explain(2)
