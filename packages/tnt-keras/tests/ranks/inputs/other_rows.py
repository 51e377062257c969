"""Models whose batches have parts without a row for each sample: ragged, sparse, graphs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import build_optimizer
from logged import logged

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
    "bags of words": (Bags, _sentences),
    "graphs": (GraphNetwork, graphs),
}


def train(distributed: bool, case: str) -> Any:
    """Weights, losses, predictions, the numbers of partitions by their step, and warnings.

    Then losses and predictions of single batches, of which one is the last.
    """
    make, data = CASES[case]
    keras.utils.set_random_seed(3)
    model = make()
    for x, _ in data().take(1):
        model(x)
    if distributed:
        model = tnt.Model(model)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", metrics=["mae"])
    build_optimizer(model)
    with logged(logging.WARNING) as texts:
        histories = [model.fit(data(), verbose=0).history for _ in range(2)]
    evaluated = model.evaluate(data(), verbose=0, return_dict=True)
    predicted = model.predict(data(), verbose=0)
    more: dict[str, Any] = {}
    if distributed:
        more["warnings"] = [text for text in texts if "have one row per sample" in text]
        for name in ("train", "test", "predict"):
            steps = getattr(model, f"{name}_function").steps
            more[f"partitions of {name}"] = len(steps.partitions)
    return more | {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        **{f"history {index}": history for index, history in enumerate(histories)},
        "evaluate": evaluated,
        "predict": predicted,
        "of batches": [np.asarray(one) for one in _on_batches(model, data().skip(2))],
    }


def _on_batches(model: Any, data: Any) -> Iterator[Any]:
    for x, y in data:
        yield model.train_on_batch(x, y)[0]
        yield model.predict_on_batch(x)


class Described(keras.Model):
    """Predicts texts, ragged and sparse rows, the rows themselves, and two for each."""

    def predict_step(self, data: Any) -> Any:
        x = keras.utils.unpack_x_y_sample_weight(data)[0]
        lengths = tf.cast(tf.reduce_sum(tf.cast(x > 0, "int32"), axis=1), "int64")
        return {
            "text": tf.strings.as_string(x[:, 0], precision=3),
            "ragged": tf.RaggedTensor.from_tensor(x, lengths),
            "sparse": tf.sparse.from_dense(tf.nn.relu(x)),
            "rows": x * 2.0,
            "halves": tf.reshape(x, (-1, 2)),
        }


def described(distributed: bool) -> Any:
    """Predictions of all kinds, as lists and arrays."""
    x = _random().normal(size=(_NUM_SAMPLES, 4)).astype("float32")
    model: Any = Described()
    if distributed:
        model = tnt.Model(model)
    predicted = model.predict(x, batch_size=BATCH_SIZE, verbose=0)
    return {
        "text": np.asarray(predicted["text"]).tolist(),
        "ragged": predicted["ragged"].to_list(),
        "sparse": tf.sparse.to_dense(predicted["sparse"]).numpy().tolist(),
        "rows": np.asarray(predicted["rows"]).tolist(),
        "halves": np.asarray(predicted["halves"]).tolist(),
    }


class GraphBatches(keras.utils.PyDataset):
    """The same graphs as batches that Python code makes."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = [tf.nest.map_structure(np.asarray, batch) for batch in graphs()]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Any:
        return self.batches[index]


def _arrays_of_graphs() -> Any:
    [(x, y)] = list(graphs().take(1))
    return tf.nest.map_structure(np.asarray, x), np.asarray(y)


def _generated() -> Iterator[Any]:
    yield from GraphBatches().batches


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "arrays": lambda model: model.fit(*_arrays_of_graphs(), verbose=0),
    "PyDataset": lambda model: model.fit(GraphBatches(), verbose=0),
    "generator": lambda model: model.fit(_generated(), verbose=0),
    "own": lambda model: model.fit(graphs(), verbose=0, tnt_distribute_dataset=False),
}


def error_of(mistake: str) -> str:
    """The error for batches whose parts must have a row for each sample."""
    model = tnt.Model(GraphNetwork())
    model.compile("sgd", "mse")
    try:
        MISTAKES[mistake](model)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"
