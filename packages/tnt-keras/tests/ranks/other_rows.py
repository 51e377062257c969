"""Models whose batches have parts without a row for each sample: ragged, sparse, graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_keras as tnt

BATCH_SIZE = 5  # of 17 samples: parts are uneven, and the last batch has two
_NUM_SAMPLES = 17
_GRAPHS = 4


def _random() -> np.random.Generator:
    return np.random.default_rng(7)


def _lengths(low: int, high: int, num: int = _NUM_SAMPLES) -> np.ndarray:
    return _random().integers(low, high, num)


def _targets(num: int = _NUM_SAMPLES) -> np.ndarray:
    return _random().normal(size=(num, 2)).astype("float32")


def _words() -> Any:
    lengths = _lengths(0, 7)  # some sentences are empty
    words = _random().integers(1, 11, lengths.sum())
    return tf.RaggedTensor.from_row_lengths(tf.constant(words, tf.int32), lengths)


def _sentences() -> Any:
    dense = _random().normal(size=(_NUM_SAMPLES, 3)).astype("float32")
    x = {"extra": dense, "words": _words()}
    return tf.data.Dataset.from_tensor_slices((x, _targets())).batch(BATCH_SIZE)


class Padded(keras.Model):
    """Pads sentences, and reads them by an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.table = keras.layers.Embedding(11, 4)
        self.reader = keras.layers.LSTM(6)
        self.head = keras.layers.Dense(2)

    def call(self, inputs: Any) -> Any:
        words = inputs["words"].to_tensor()
        read = self.reader(self.table(words), mask=words > 0)
        return self.head(tf.concat([read, inputs["extra"]], axis=1))


class Bags(keras.Model):
    """Adds up what stands for the words of a sentence, and takes the largest of it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = keras.layers.Embedding(11, 4)
        self.hidden = keras.layers.Dense(8, activation="tanh")
        self.head = keras.layers.Dense(2)

    def call(self, inputs: Any) -> Any:
        words = inputs["words"]
        features = words.with_values(self.table(words.values))
        total = tf.reduce_sum(features, axis=1)
        counts = tf.cast(words.row_lengths(), "float32")[:, None]
        largest = tf.maximum(tf.reduce_max(features, axis=1), -9.0)  # of no words, too
        joined = tf.concat([tf.math.divide_no_nan(total, counts), largest], axis=1)
        return self.head(self.hidden(tf.concat([joined, inputs["extra"]], axis=1)))


def _sparse() -> Any:
    dense = _random().normal(size=(_NUM_SAMPLES, 9)) * (_random().random((_NUM_SAMPLES, 9)) < 0.3)
    x = tf.sparse.from_dense(tf.constant(dense, tf.float32))
    return tf.data.Dataset.from_tensor_slices((x, _targets())).batch(BATCH_SIZE)


def _sparse_model() -> Any:
    x = keras.Input((9,), sparse=True)
    hidden = keras.layers.Dense(8, activation="tanh")(x)
    return keras.Model(x, keras.layers.Dense(2)(hidden))


def _merged(nodes: Any, edges: Any, y: Any) -> Any:
    begins = nodes.row_splits[:-1]
    x = {
        "nodes": nodes.values,
        "edges": edges.values + tf.gather(begins, edges.value_rowids())[:, None],
        "graph": nodes.value_rowids(),
        "size": nodes.row_lengths(),
    }
    return x, y


def graphs(sizes: Any = None) -> Any:
    """Batches of 4 graphs, as the nodes, edges and targets of all of them."""
    num = 3 * _GRAPHS + 2
    sizes = _lengths(1, 6, num) if sizes is None else sizes
    num_edges = _lengths(0, 9, num)
    nodes = _random().normal(size=(sizes.sum(), 3)).astype("float32")
    ends = np.concatenate(
        [_random().integers(0, n, (m, 2)) for n, m in zip(sizes, num_edges, strict=True)]
    )
    ragged_nodes = tf.RaggedTensor.from_row_lengths(nodes, sizes)
    ragged_edges = tf.RaggedTensor.from_row_lengths(ends.astype("int64"), num_edges)
    data = tf.data.Dataset.from_tensor_slices((ragged_nodes, ragged_edges, _targets(num)))
    return data.batch(_GRAPHS).map(_merged)


class GraphNetwork(keras.Model):
    """Sends messages along edges twice, and adds up the nodes of each graph."""

    def __init__(self) -> None:
        super().__init__()
        self.message = keras.layers.Dense(6, activation="tanh")
        self.update = keras.layers.Dense(3, activation="tanh")
        self.hidden = keras.layers.Dense(16, activation="tanh")
        self.head = keras.layers.Dense(2)

    def call(self, inputs: Any) -> Any:
        nodes, edges = inputs["nodes"], inputs["edges"]
        for _ in range(2):
            sent = self.message(tf.gather(nodes, edges[:, 0]))
            received = tf.math.unsorted_segment_sum(sent, edges[:, 1], tf.shape(nodes)[0])
            nodes = nodes + self.update(tf.concat([nodes, received], axis=1))
        num_graphs = tf.shape(inputs["size"])[0]
        totals = tf.math.unsorted_segment_sum(nodes, inputs["graph"], num_graphs)
        means = totals / tf.cast(inputs["size"], "float32")[:, None]
        return self.head(self.hidden(means))


CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "padded sentences": (Padded, _sentences),
    "bags of words": (Bags, _sentences),
    "sparse": (_sparse_model, _sparse),
    "graphs": (GraphNetwork, graphs),
}


def train(case: str, distributed: bool) -> Any:
    """Weights, losses, predictions, and the numbers of partitions by their step."""
    make, data = CASES[case]
    keras.utils.set_random_seed(3)
    model = make()
    for x, _ in data().take(1):
        model(x)
    if distributed:
        model = tnt.Model(model)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", metrics=["mae"])
    history = model.fit(data(), epochs=2, verbose=0)
    evaluated = model.evaluate(data(), verbose=0, return_dict=True)
    predicted = model.predict(data(), verbose=0)
    partitions = {}
    if distributed:
        for name in ("train", "test", "predict"):
            partitions[name] = len(getattr(model, f"{name}_function").steps.partitions)
    return {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "history": history.history,
        "evaluate": evaluated,
        "predict": predicted,
        "partitions": partitions,
    }
