"""Arrays that Keras converts, or weights by class, in plain Keras and in Tarantella."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pandas
import scipy.sparse
import tensorflow as tf
from classifiers import NUM_SAMPLES, classifier, compiled, restarted, samples, weights_of

import tnt_data
import tnt_keras

BATCH_SIZE = 5


class Noting(keras.Model):
    """Notes dtypes and shapes of what its step receives, and predicts one number."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.received: list[str] = []

    def call(self, inputs: Any) -> Any:
        leaves = [keras.ops.cast(leaf, "float32") for leaf in keras.tree.flatten(inputs)]
        return self.dense(keras.ops.concatenate(leaves, -1))

    def train_step(self, data: Any) -> Any:
        self.received = [f"{one.dtype.name} {one.shape[1:]}" for one in keras.tree.flatten(data)]
        return super().train_step(data)


def _columns() -> Any:
    x, _ = samples(NUM_SAMPLES)
    table = pandas.DataFrame(x.astype("float64"), columns=list("abcdefghij"))
    return table.assign(a=np.arange(NUM_SAMPLES), b=table["b"].astype("float32"))


def _targets() -> np.ndarray:
    return samples(NUM_SAMPLES)[1] / 3.0


def _integers() -> Any:
    return pandas.DataFrame({"a": np.arange(NUM_SAMPLES), "b": np.arange(NUM_SAMPLES) % 4})


ARRAYS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "tensors of float64": lambda: (
        tf.constant(samples(NUM_SAMPLES)[0], tf.float64),
        tf.constant(_targets()[:, None]),
        tf.constant(weights_of(NUM_SAMPLES), tf.float64),
    ),
    "tensors of float16": lambda: (
        tf.constant(samples(NUM_SAMPLES)[0], tf.float16),
        tf.constant(_targets()[:, None], tf.bfloat16),
        None,
    ),
    "Series": lambda: (
        pandas.Series(samples(NUM_SAMPLES)[0][:, 0].astype("float64")),
        pandas.Series(_targets(), index=range(5, 5 + NUM_SAMPLES)),
        pandas.Series(weights_of(NUM_SAMPLES)),
    ),
    "DataFrame": lambda: (_columns(), _targets(), None),
    "DataFrames of integers and others": lambda: (
        {"a": _integers(), "b": _columns()["c"]},
        pandas.DataFrame({"y": _targets()}),
        pandas.Series(weights_of(NUM_SAMPLES).astype("float64")),
    ),
    "integers": lambda: (np.arange(2 * NUM_SAMPLES).reshape(-1, 2), samples(NUM_SAMPLES)[1], None),
}


def train_on_arrays(distributed: bool, kinds: Sequence[str]) -> dict[str, Any]:
    """Trains with a part for validation and evaluates, once for each kind of arrays."""
    return {kind: _train(*ARRAYS[kind](), distributed) for kind in kinds}


def _train(x: Any, y: Any, weights: Any, distributed: bool) -> dict[str, Any]:
    keras.utils.set_random_seed(3)
    model = Noting()
    if distributed:
        model = tnt_keras.Model(model)
    model.compile(keras.optimizers.SGD(1e-3), "mse", weighted_metrics=["mae"])
    history = model.fit(
        *(x, y, BATCH_SIZE),
        sample_weight=weights,
        validation_split=0.3,
        shuffle=False,
        epochs=2,
        verbose=0,
    )
    return {
        "received": list(model.received),
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "history": history.history,
        "evaluate": model.evaluate(x, y, sample_weight=weights, batch_size=7, verbose=0),
        "predict": model.predict(x, batch_size=7, verbose=0),
    }


def _sparse_rows() -> tuple[np.ndarray, np.ndarray]:
    """Rows of which one is empty, and their targets."""
    rng = np.random.default_rng(5)
    x = rng.random((21, 12)) * (rng.random((21, 12)) > 0.7)
    x[5] = 0
    return x, x.sum(1, keepdims=True)


def train_on_sparse(distributed: bool, kind: str) -> dict[str, Any]:
    """Trains on a sparse array: a `matrix`, its `entries`, or a `tensor`."""
    x, y = _sparse_rows()
    given, options = {
        "matrix": (scipy.sparse.csr_matrix(x), {"validation_split": 0.2}),
        "entries": (scipy.sparse.coo_matrix(x), {"sample_weight": np.linspace(0.5, 1.5, 21)}),
        "tensor": (tf.sparse.from_dense(x.astype("float32")), {"shuffle": False}),
    }[kind]
    model = _with_sparse_input(distributed)
    history = model.fit(given, y, batch_size=6, epochs=2, verbose=0, **options)
    return {
        "history": history.history,
        "weights": model.get_weights(),
        "evaluate": model.evaluate(given, y, batch_size=7, verbose=0),
        "predict": model.predict(given, batch_size=7, verbose=0),
    }


def sparse_batches(distributed: bool) -> dict[str, Any]:
    """Trains, tests and predicts on one batch of sparse rows."""
    x, y = _sparse_rows()
    batch = tf.sparse.from_dense(x.astype("float32"))
    model = _with_sparse_input(distributed)
    return {
        "train": model.train_on_batch(batch, y),
        "test": model.test_on_batch(batch, y),
        "predict": model.predict_on_batch(batch),
        "weights": model.get_weights(),
    }


def _with_sparse_input(distributed: bool) -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(4, "relu"), keras.layers.Dense(1)]
    model: Any = keras.Sequential([keras.Input((12,), sparse=True), *layers])
    optimizer = keras.optimizers.Adam(0.02)
    return compiled(model, distributed, {"optimizer": optimizer, "loss": "mse", "metrics": ["mae"]})


def mixed_in_batches(distributed: bool, dropout: float) -> dict[str, Any]:
    """Trains on arrays of which the rows are mixed inside of each batch alone."""
    keras.utils.set_random_seed(3)
    x = np.linspace(-1, 1, 42, dtype="float32").reshape(21, 2)
    layers = [keras.layers.Dense(4), keras.layers.Dropout(dropout), keras.layers.Dense(1)]
    model: Any = keras.Sequential([keras.Input((2,)), *layers])
    model = compiled(model, distributed, {"optimizer": "sgd", "loss": "mse"})
    model.fit(x, x[:, :1], batch_size=6, epochs=2, shuffle="batch", verbose=0)
    return {"weights": model.get_weights(), "history": model.history.history}


def default_batch_sizes(distributed: bool) -> dict[str, Any]:
    """Arrays with numbers of steps, but without sizes of batches."""
    x, y = samples(NUM_SAMPLES)
    model = restarted(classifier, distributed)
    history = model.fit(
        *(x, y),
        validation_data=(x, y),
        steps_per_epoch=4,
        validation_steps=3,
        epochs=2,
        shuffle=False,
        verbose=0,
    )
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "history": history.history,
        "evaluate": model.evaluate(x, y, steps=3, verbose=0),
        "predict": model.predict(x, steps=3, verbose=0),
    }


def one_weight_for_several_targets(distributed: bool, as_column: bool) -> dict[str, Any]:
    """A model of two outputs with one array of sample weights."""
    keras.utils.set_random_seed(5)
    inputs = keras.Input((10,))
    outputs = [keras.layers.Dense(1, name="a")(inputs), keras.layers.Dense(2, name="b")(inputs)]
    model = keras.Model(inputs, outputs)
    if distributed:
        model = tnt_keras.Model(model)
    model.compile("sgd", ["mse", "mae"], weighted_metrics=[["mae"], ["mse"]])
    x, _ = samples(NUM_SAMPLES)
    weights = weights_of(NUM_SAMPLES)
    history = model.fit(
        *(x, [x[:, :1], x[:, 1:3]]),
        batch_size=BATCH_SIZE,
        sample_weight=weights[:, None] if as_column else weights,
        shuffle=False,
        verbose=0,
    )
    return {"weights": [np.asarray(w) for w in model.get_weights()], "history": history.history}


class Batches(keras.utils.PyDataset):
    """Batches of labels that have no weight, negative ones included."""

    def __len__(self) -> int:
        return -(-NUM_SAMPLES // BATCH_SIZE)

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        rows = slice(index * BATCH_SIZE, (index + 1) * BATCH_SIZE)
        return samples(NUM_SAMPLES)[0][rows], _labels()[rows]


def _labels() -> np.ndarray:
    labels = samples(NUM_SAMPLES)[1]
    labels[::4] = -1
    return labels


def _one_hot() -> np.ndarray:
    return np.eye(3, dtype="float32")[samples(NUM_SAMPLES)[1]]


def _dataset(y: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices((samples(NUM_SAMPLES)[0], y)).batch(BATCH_SIZE)


def _open_columns(y: Any) -> Any:
    """A dataset of targets whose number of columns is not known before they are read."""
    spec = (tf.TensorSpec([None, 10]), tf.TensorSpec([None, None]))
    batches = list(_dataset(y).as_numpy_iterator())
    return tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec)


LEFT_OUT = {0: 0.2, 2: 4.0}
NEGATIVE = {-1: 0.5, 1: 3.0}
COLUMN = (samples(NUM_SAMPLES)[1] == 2).astype("float32")[:, None]
CLASS_WEIGHTS: dict[str, tuple[Callable[[], Any], dict[int, float]]] = {
    "labels in arrays": (lambda: (samples(NUM_SAMPLES)[0], _labels()), {1: 2.5}),
    "weights of negative labels": (lambda: (samples(NUM_SAMPLES)[0], _labels()), NEGATIVE),
    "column in arrays": (lambda: (samples(NUM_SAMPLES)[0], _labels()[:, None]), NEGATIVE),
    "Series": (lambda: (samples(NUM_SAMPLES)[0], pandas.Series(_labels())), NEGATIVE),
    "PyDataset": (lambda: (Batches(),), NEGATIVE),
    "one-hot in arrays": (lambda: (samples(NUM_SAMPLES)[0], _one_hot()), {0: 0.2, 1: 4.0}),
    "labels in a dataset": (lambda: (_dataset(samples(NUM_SAMPLES)[1]),), LEFT_OUT),
    "one-hot in a dataset": (lambda: (_dataset(_one_hot()),), LEFT_OUT),
    "open one-hot in a dataset": (lambda: (_open_columns(_one_hot()),), LEFT_OUT),
    "open column in a dataset": (lambda: (_open_columns(COLUMN),), {0: 0.2, 1: 3.0}),
    "too large in a dataset": (lambda: (_dataset(np.full(NUM_SAMPLES, 2)),), {0: 0.2, 1: 3.0}),
    "negative in a dataset": (lambda: (_dataset(np.full(NUM_SAMPLES, -1)),), {0: 0.2, 2: 3.0}),
}


def train_with_class_weights(distributed: bool, kinds: Sequence[str]) -> dict[str, Any]:
    """Trains once for each kind of labels; an error stands in place of the results."""
    return {kind: _train_with_class_weight(kind, distributed) for kind in kinds}


def _train_with_class_weight(kind: str, distributed: bool) -> Any:
    make, class_weight = CLASS_WEIGHTS[kind]
    if "one-hot" in kind or "open" in kind:
        model = restarted(_with_mse, distributed)
    elif kind in ("column in arrays", "Series"):
        # Of two dimensions: Keras' step is not traced for one and for two.
        model = _with_ignored_class(distributed)
    else:
        model = restarted(_with_ignored_class, distributed)
    data = make()
    batch_size = BATCH_SIZE if len(data) == 2 else None
    try:
        history = model.fit(
            *data, batch_size=batch_size, class_weight=class_weight, shuffle=False, verbose=0
        )
    except (tf.errors.OpError, ValueError) as error:
        return type(error).__name__
    return {"weights": [np.asarray(w) for w in model.get_weights()], "history": history.history}


def labels_without_weight(kind: str) -> tuple[str, str, Any]:
    """The error for a dataset in which rank 1 alone has a label without weight.

    Returns:
        Class and text of the error, and the history of a training thereafter.
    """
    rank, size = tnt_keras.get_rank(), tnt_keras.get_size()
    y = samples(NUM_SAMPLES)[1]
    wrong = y.copy()
    wrong[2 * BATCH_SIZE + 1] = 7  # read by rank 1 of 2 however the samples are shared
    own = {"tnt_distribute_dataset": False} if kind in ("own", "micro-batches") else {}

    def data(labels: np.ndarray) -> Any:
        whole = _dataset(labels)
        if kind == "own":
            whole = whole.unbatch().take(20).shard(size, rank).batch(BATCH_SIZE)
        return tnt_data.distribute(whole, rank, size) if kind == "micro-batches" else whole

    is_eager = kind == "eager"
    model = classifier(True, run_eagerly=True) if is_eager else restarted(classifier, True)
    fit = functools.partial(model.fit, verbose=0, class_weight=LEFT_OUT, **own)
    try:
        fit(data(wrong))
    except Exception as error:
        return type(error).__name__, str(error), fit(data(y)).history
    return "none", "", None


def _with_mse(distributed: bool) -> Any:
    return classifier(distributed, loss="mse", metrics=None, weighted_metrics=["mse"])


def _with_ignored_class(distributed: bool) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=-1)
    metric = "sparse_categorical_accuracy"
    return classifier(distributed, loss=loss, metrics=None, weighted_metrics=[metric])


def class_weight_errors(distributed: bool) -> list[str]:
    """The errors for what cannot be weighed."""
    (x, y), found = samples(NUM_SAMPLES), []
    mistakes: list[dict[str, Any]] = [
        {"y": y, "sample_weight": weights_of(NUM_SAMPLES)},
        {"y": [y, y]},
        {"y": np.stack([y, y], 1)[..., None]},
    ]
    for mistake in mistakes:
        try:
            classifier(distributed).fit(x, **mistake, class_weight={0: 2.0}, verbose=0)
        except Exception as error:
            found.append(str(error))
    return found
