"""The names of the original Tarantella are there, or say what takes their place."""

from __future__ import annotations

import importlib
import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tnt_keras
from tnt_keras import (
    Barrier,
    Group,
    ParallelStrategy,
    TensorAllgatherer,
    TensorAllreducer,
    TensorBroadcaster,
)
from tnt_keras.legacy.original_names import LEFT_OUT

OPERATIONS = [TensorAllreducer, TensorBroadcaster, TensorAllgatherer]


@pytest.mark.parametrize("name", [name for name in LEFT_OUT if "." in name])
def test_a_name_that_is_left_out_says_what_to_use(name: str) -> None:
    module, _, last = f"tnt_keras.{name}".rpartition(".")
    with pytest.raises(AttributeError, match="left out, use ") as caught:
        getattr(importlib.import_module(module), last)
    assert LEFT_OUT[name] in str(caught.value)


def test_namespaces_hold_the_same_objects() -> None:
    assert tnt_keras.keras.models is tnt_keras.models
    assert tnt_keras.keras.Model is tnt_keras.models.Model is tnt_keras.Model
    assert tnt_keras.keras.Sequential is tnt_keras.models.Sequential is tnt_keras.Sequential


def test_strategies_are_combined_and_tested() -> None:
    assert ParallelStrategy.DATA | ParallelStrategy.PIPELINING == ParallelStrategy.ALL
    assert ParallelStrategy.DATA in ParallelStrategy.ALL
    assert not ParallelStrategy.NONE


def test_data_distributes_and_none_gives_the_model_back() -> None:
    plain = keras.Sequential()
    assert tnt_keras.Model(plain, ParallelStrategy.NONE) is plain
    assert not isinstance(plain, tnt_keras.Model)
    assert tnt_keras.Model(plain, parallel_strategy=ParallelStrategy.DATA) is plain
    assert isinstance(plain, tnt_keras.Model)


@pytest.mark.parametrize("strategy", [ParallelStrategy.PIPELINING, ParallelStrategy.ALL])
def test_pipelining_is_refused_in_one_sentence(strategy: ParallelStrategy) -> None:
    with pytest.raises(NotImplementedError, match=r"^Pipelining is not implemented.*DATA"):
        tnt_keras.Model(keras.Sequential(), parallel_strategy=strategy)


def test_what_is_no_strategy_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`tnt.ParallelStrategy`\. Received: .*'data'"):
        tnt_keras.Model(keras.Sequential(), "data")


def test_one_rank_is_the_master_of_its_group() -> None:
    assert tnt_keras.get_group_master_rank(Group()) == 0
    assert tnt_keras.is_group_master_rank(Group([0]))
    Barrier().execute()
    Barrier(Group([0])).execute()


def test_one_rank_gets_its_own_values() -> None:
    value = {"a": [1, 2.5, np.ones(2)], "b": (tf.constant([3]), np.int8(4))}
    for operation, call in ((TensorAllreducer, "allreduce"), (TensorBroadcaster, "broadcast")):
        result = getattr(operation(value), call)(value)
        tf.nest.assert_same_structure(result, value)
        kinds = [[type(leaf) for leaf in tf.nest.flatten(nest)] for nest in (result, value)]
        assert kinds[0] == kinds[1]
        assert all(map(np.array_equal, tf.nest.flatten(result), tf.nest.flatten(value)))
    assert TensorAllgatherer(3).allgather(4).tolist() == [4]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("value", ["text", None, tf.Variable(1.0), [1, "text"], {1, 2}, 1j])
def test_values_of_other_kinds_are_refused(operation: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"^Rank 0: a \w+ cannot be sent, only numbers"):
        operation(value)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_masked_arrays_are_refused_since_they_would_lose_their_masks(operation: Any) -> None:
    with pytest.raises(TypeError, match="its mask would be lost"):
        operation([np.ma.masked_equal([1, 2], 2)])


@pytest.mark.parametrize("group", [0, [0], "world"])
def test_a_barrier_of_what_is_no_group_is_refused(group: Any) -> None:
    with pytest.raises(TypeError, match=r"`group` must be a `tnt.Group`\. Received: "):
        Barrier(group)


def test_symbolic_tensors_are_refused() -> None:
    @tf.function
    def step(x: tf.Tensor) -> None:
        TensorAllreducer(x)

    with pytest.raises(TypeError, match="eager tensors"):
        step(tf.constant(1.0))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", ["uint16", "complex64", "str"])
def test_dtypes_that_cannot_be_sent_are_refused(operation: Any, dtype: str) -> None:
    with pytest.raises(ValueError, match="dtype must be one of"):
        operation(np.zeros(2, dtype))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("sample", "given", "text"),
    [
        (1, 1.5, "float instead of int"),
        ([1, 2], [1], r"\[value\] instead of \[value, value\]"),
        ({"a": 1}, {"b": 1}, r"\{'b': value\} instead of \{'a': value\}"),
        ([1], (1,), r"\(value\) instead of \[value\]"),
        (np.ones(2), np.ones(2, "float32"), "float32 array of shape .* instead of float64 array"),
    ],
)
def test_values_unlike_the_sample_are_refused(
    operation: Any, sample: Any, given: Any, text: str
) -> None:
    with pytest.raises(ValueError, match=f"Rank 0: `inputs` of a {operation.__name__}.*{text}"):
        operation(sample).start(given)


@pytest.mark.parametrize("operation", [TensorAllreducer, TensorBroadcaster])
def test_shapes_unlike_the_sample_are_refused(operation: Any) -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\) instead of float64 array of shape \(2,\)"):
        operation(np.ones(2)).start(np.ones(3))


def test_starts_and_waits_come_in_pairs() -> None:
    reducer = TensorAllreducer(1)
    with pytest.raises(RuntimeError, match=r"`wait_for_completion` .* before `start`"):
        reducer.wait_for_completion()
    reducer.start(1)
    with pytest.raises(RuntimeError, match=r"`start` .* called again"):
        reducer.start(1)
    assert reducer.wait_for_completion() == 1


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("value", [{1: 2, "a": 3}, [{"x": {None: 1, "a": 2}}]])
def test_keys_that_cannot_be_sorted_are_refused(operation: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"^Rank 0: values of a dict .* keys of one type\.$"):
        operation(value)


@pytest.mark.parametrize("root", ["0", None, 1.0])
def test_a_root_that_is_no_integer_is_refused(root: Any) -> None:
    text = re.escape(f"`root_rank` must be an int. Received: {root!r} ({type(root).__name__}).")
    with pytest.raises(TypeError, match=text):
        TensorBroadcaster(1, root_rank=root)
    assert TensorBroadcaster(1, root_rank=np.int64(0)).broadcast(2) == 2


def test_a_root_outside_of_the_group_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`root_rank` .* \[0, 1\)\. Received: root_rank=1"):
        TensorBroadcaster(1, root_rank=1)
