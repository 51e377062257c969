"""Values without a row for each sample: all replicas have them, and go on with rows of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from cases import cases
from step_replicas import StepInReplicas, all_steps, assert_replicas

from tnt_keras.partition import REPLICATED, Sharded
from tnt_keras.partition.plan import Cut
from tnt_keras.partition.value import Partial

ROWS = 6
TABLE = tf.Variable(np.random.default_rng(0).normal(size=(11, 8)), dtype="float32")
KERNEL = tf.Variable(np.random.default_rng(1).normal(size=(8, 8)), dtype="float32")
LSTM = keras.layers.LSTM(5)
LSTM.build((None, None, 8))

Network = Callable[[Any, Any], Any]


def batch(seed: int, low: int = 0, high: int = 7, ragged_rank: int = 1) -> list[Any]:
    """Values and splits of ragged integers, and a dense target."""
    random = np.random.default_rng(seed)
    lengths = random.integers(low, high, ROWS)
    splits = [np.cumsum([0, *lengths])]
    for _ in range(ragged_rank - 1):
        splits.append(np.cumsum([0, *random.integers(0, 4, splits[-1][-1])]))
    values = random.integers(1, 11, splits[-1][-1]).astype("int32")
    return [values, *splits, random.normal(size=[ROWS, 8]).astype("float32")]


def trained(
    network: Network, *batches: list[Any], replicas: tuple[int, ...] = (2, 3)
) -> StepInReplicas:
    """Steps of a network of ragged integers and dense rows, in replicas as in TensorFlow."""
    rank = len(batches[0]) - 2

    def step(values: Any, *rest: Any) -> Any:
        *splits, y = rest
        ragged = tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False)
        with tf.GradientTape() as tape:
            predicted = network(ragged, y)
            loss = tf.reduce_mean(tf.square(predicted))
        for variable, gradient in zip(
            [TABLE, KERNEL], tape.gradient(loss, [TABLE, KERNEL]), strict=True
        ):
            if gradient is not None:
                variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss, predicted

    traced = assert_replicas(
        step,
        *batches,
        replicas=replicas,
        rows=[False] * (rank + 1) + [True],
        unknown={0: [0]} | {i: [0] for i in range(2, rank + 1)},
        variables=[TABLE, KERNEL],
    )
    assert len(traced.built) == len(replicas)  # one for all sizes of the values
    return traced


def products(traced: StepInReplicas) -> set[Any]:
    """The placements of all matrix products."""
    return {
        value.placement
        for built in traced.built.values()
        for step in all_steps(built.plan)
        if step.node.type in ("MatMul", "BatchMatMulV2")
        for value in step.outputs
    }


def embedded(ragged: Any) -> Any:
    return ragged.with_values(tf.gather(TABLE, ragged.flat_values))


def attention(ragged: Any, y: Any) -> Any:
    x = tf.gather(TABLE, ragged.to_tensor())
    scores = tf.nn.softmax(tf.matmul(x @ KERNEL, x, transpose_b=True))
    mask = tf.sequence_mask(ragged.row_lengths(), tf.shape(x)[1])
    return tf.where(mask[:, :, None], tf.matmul(scores, x), 0.0)


def bag(ragged: Any, y: Any) -> Any:
    total = tf.reduce_sum(embedded(ragged), 1)
    count = tf.cast(ragged.row_lengths(), "float32")[:, None]
    return tf.math.divide_no_nan(total, count) @ KERNEL - y


def sparse(ragged: Any, y: Any) -> Any:
    """A matrix of which few entries are given, as one and as dense rows."""
    rows = ragged.value_rowids()
    places = tf.stack([rows, tf.range(tf.size(ragged.flat_values), dtype="int64") % 8], 1)
    shape = tf.stack([tf.cast(tf.shape(y)[0], "int64"), 8])
    numbers = tf.cast(ragged.flat_values, "float32")
    matrix = tf.SparseTensor(places, numbers, shape)
    filled = tf.sparse.to_dense(matrix, validate_indices=False)
    return tf.sparse.sparse_dense_matmul(matrix, TABLE[:8]) @ KERNEL + filled @ KERNEL


def merged(ragged: Any, y: Any) -> Any:
    """A graph network with an edge between neighbours in a row."""
    nodes, graph = embedded(ragged).values, ragged.value_rowids()
    begins, ends = tf.where(graph[1:] == graph[:-1])[:, 0], tf.where(graph[1:] == graph[:-1]) + 1
    sent = tf.gather(nodes, begins)
    nodes += tf.math.unsorted_segment_sum(sent, ends[:, 0], tf.shape(nodes)[0])
    return tf.math.unsorted_segment_max(nodes, graph, tf.shape(y)[0]) @ KERNEL


def filled_up(ragged: Any, y: Any) -> Any:
    """What TensorFlow gives an unknown number of rows, with that of the batch."""
    ones = tf.ones_like(ragged.flat_values[: tf.shape(y)[0]], "float32")
    padded = tf.concat([ones, tf.zeros([tf.shape(y)[0] - tf.size(ones)])], 0)
    return (tf.reshape(padded, [tf.shape(y)[0], 1]) + y) @ KERNEL


NETWORKS: dict[str, Network] = {
    "padded, attention": attention,
    "padded, recurrent": lambda x, y: LSTM(
        tf.nn.relu(tf.gather(TABLE, x.to_tensor()) @ KERNEL), mask=x.to_tensor() > 0
    ),
    "padded to a size": lambda x, y: tf.gather(TABLE, x.to_tensor(shape=[None, 4])) @ KERNEL,
    "padded by row numbers": lambda x, y: (
        tf.gather(
            TABLE,
            tf.RaggedTensor.from_value_rowids(
                x.values, x.value_rowids(), tf.cast(tf.shape(y)[0], "int64")
            ).to_tensor(),
        )
        @ KERNEL
    ),
    "bag": bag,
    "largest of a bag": lambda x, y: tf.maximum(tf.reduce_max(embedded(x), 1), -9.0) @ KERNEL,
    "sparse": sparse,
    "merged": merged,
    "reshaped": filled_up,
}


@cases("name", ["bag", "merged", "sparse"], thorough=NETWORKS)
def test_what_becomes_dense_has_rows_from_then_on(name: str) -> None:
    traced = trained(NETWORKS[name], *(batch(seed) for seed in range(4)), batch(4, 1, 2))
    assert REPLICATED not in products(traced)
    assert products(traced) & {Sharded(0), Partial("sum")}
    assert any(isinstance(s, Cut) for b in traced.built.values() for s in all_steps(b.plan))


@cases("name", ["bag"], thorough=["merged", "sparse"])
def test_a_batch_may_have_no_values_at_all(name: str) -> None:
    trained(NETWORKS[name], batch(0), batch(1, 0, 1), replicas=(2,))


def test_nested_ragged_values_become_rows() -> None:
    def network(ragged: Any, y: Any) -> Any:
        return tf.gather(TABLE, ragged.to_tensor()) @ KERNEL

    traced = trained(network, *(batch(seed, ragged_rank=2) for seed in range(3)), replicas=(3,))
    assert REPLICATED not in products(traced)


def test_a_number_of_rows_that_only_values_tell_is_right() -> None:
    def network(ragged: Any, y: Any) -> Any:
        nodes, graph = embedded(ragged).values, ragged.value_rowids()
        totals = tf.math.unsorted_segment_sum(nodes, graph, tf.reduce_max(graph) + 1)
        return tf.nn.relu(totals @ KERNEL) - y * tf.reduce_mean(totals, 1, keepdims=True)

    trained(network, *(batch(seed, 1) for seed in range(3)))


def test_a_size_that_is_not_that_of_the_batch_gives_no_rows() -> None:
    def network(ragged: Any, y: Any) -> Any:
        seven = tf.gather(TABLE, ragged.to_tensor(shape=[ROWS + 1, 3])) @ KERNEL
        few = tf.math.unsorted_segment_sum(embedded(ragged).values, ragged.value_rowids() % 2, 2)
        return tf.reduce_sum(seven, [0, 1]) + tf.reduce_sum(few @ KERNEL, 0) + y

    traced = trained(network, *(batch(seed) for seed in range(3)), replicas=(2,))
    assert REPLICATED in products(traced)


def test_a_size_that_is_that_of_the_batch_by_chance_does_no_harm() -> None:
    def network(ragged: Any, y: Any) -> Any:
        words = tf.math.unsorted_segment_sum(embedded(ragged).values, ragged.flat_values % 6, 6)
        return tf.reverse(words @ KERNEL, [0]) + tf.cumsum(words) + y

    trained(network, *(batch(seed) for seed in range(3)))


@cases("split", ["whitespace"], thorough=["character"])
def test_texts_that_the_step_splits_into_words_become_rows(split: str) -> None:
    texts = np.array([["the cat sat"], ["a dog"], [""], ["the dog and a cat"], ["on"], ["sat on"]])
    words = keras.layers.TextVectorization(split=split, output_sequence_length=4)
    words.adapt(texts)

    def step(batch: tf.Tensor) -> tf.Tensor:
        return LSTM(tf.gather(TABLE, words(batch) % 11))

    done = assert_replicas(step, [texts], [texts[::-1]])
    assert all(built.explanation.replicated_share == 0.0 for built in done.built.values())


def test_arithmetic_on_ragged_values_is_told_to_be_done_by_all() -> None:
    def network(ragged: Any, y: Any) -> Any:
        return tf.reduce_sum(embedded(ragged).with_values(embedded(ragged).values @ KERNEL), 1) - y

    [built] = trained(network, batch(0), replicas=(2,)).built.values()
    assert built.explanation.replicated_share > 0.1
    assert any("of the arithmetic alike" in text for text in built.explanation.warnings())
