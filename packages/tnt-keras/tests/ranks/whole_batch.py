"""Models whose losses or layers need all rows of the batch; each run returns numpy values."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import build_optimizer, samples

import tnt_keras as tnt

BATCH_SIZE = 5  # of 21 samples: parts are uneven, and the last batch has one sample


def _trained(model: Any, distributed: bool, y: Any = None, **compile_arguments: Any) -> Any:
    """Weights, and losses of 3 epochs and of `evaluate`."""
    if distributed:
        model = tnt.Model(model)
    x = samples()[0]
    arguments = {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9), **compile_arguments}
    model.compile(**arguments)
    build_optimizer(model)
    history = model.fit(x, y, batch_size=BATCH_SIZE, shuffle=False, epochs=3, verbose=0)
    return {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "history": history.history,
        "evaluate": model.evaluate(x, y, batch_size=BATCH_SIZE, verbose=0, return_dict=True),
    }


def _unit(features: Any) -> Any:
    return tf.math.l2_normalize(features, axis=1)


def nt_xent(first: Any, second: Any, temperature: float = 0.5) -> Any:
    """The loss of SimCLR, a scalar, for two views of shape `(samples, features)`."""
    views = tf.concat([_unit(first), _unit(second)], 0)
    logits = tf.matmul(views, views, transpose_b=True) / tf.cast(temperature, views.dtype)
    logits -= tf.cast(1e4, views.dtype) * tf.eye(tf.shape(views)[0], dtype=views.dtype)
    partners = tf.roll(tf.range(tf.shape(views)[0]), tf.shape(first)[0], 0)
    return tf.reduce_mean(
        keras.ops.sparse_categorical_crossentropy(partners, logits, from_logits=True)
    )


class OwnStep(keras.Model):
    """A model with a step of its own around `compute(data)`, the loss of a batch."""

    def __init__(self, scales_loss: bool = False) -> None:
        super().__init__()
        self.scales_loss = scales_loss
        self.network = keras.Sequential(
            [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(4)]
        )
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.loss_tracker]

    def call(self, inputs: Any) -> Any:
        return self.network(inputs)

    def compute(self, data: Any) -> Any:
        raise NotImplementedError

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self.compute(data)
            scaled = self.optimizer.scale_loss(loss) if self.scales_loss else loss
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data: Any) -> Any:
        self.loss_tracker.update_state(self.compute(data))
        return {"loss": self.loss_tracker.result()}


class Contrastive(OwnStep):
    """SimCLR: two views of all samples of the batch."""

    def compute(self, data: Any) -> Any:
        first, second = self(data), self(tf.sin(data))
        return nt_xent(tnt.gather_batch(first), tnt.gather_batch(second))


class OwnQueries(OwnStep):
    """In-batch negatives: this rank's queries against the keys of all ranks."""

    def compute(self, data: Any) -> Any:
        queries, keys = _unit(self(data)), _unit(self(tf.sin(data)))
        others = tf.matmul(queries, tnt.gather_batch(keys), transpose_b=True)
        return tf.reduce_mean(
            tf.reduce_logsumexp(5.0 * others, axis=1) - 5.0 * tf.reduce_sum(queries * keys, axis=1)
        )


class MaskedQuotient(OwnStep):
    """The mean of errors over those entries that a mask leaves."""

    def compute(self, data: Any) -> Any:
        errors = tf.square(self(data) - data[:, :4])
        mask = data[:, 4:8] > 0.3
        return tnt.batch_mean(tf.reshape(errors, [-1]), weights=tf.reshape(mask, [-1]))


class SelectedRows(OwnStep):
    """The mean error of selected samples, of which a rank may have none."""

    def compute(self, data: Any) -> Any:
        errors = tf.reduce_sum(tf.square(self(data) - data[:, :4]), axis=1)
        return tnt.batch_mean(tf.boolean_mask(errors, data[:, 0] > 0.5))


class PickedRows(OwnStep):
    """A loss of a few gathered rows, whose gradient lists rows instead of being dense."""

    def compute(self, data: Any) -> Any:
        rows = tnt.gather_batch(self(data))
        picked = tf.gather(rows, [0, tf.shape(rows)[0] - 1, 0])
        return tf.reduce_sum(tf.square(picked)) / 3.0


class Momentum(OwnStep):
    """MoCo: keys of earlier batches are negatives, kept in a queue."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = self.add_weight(shape=(12, 4), trainable=False, name="queue")

    def compute(self, data: Any) -> Any:
        queries, keys = _unit(self(data)), tf.stop_gradient(_unit(self(tf.sin(data))))
        positive = tf.reduce_sum(queries * keys, axis=1)
        negative = tf.matmul(queries, tf.convert_to_tensor(self.queue), transpose_b=True)
        logits = tf.concat([positive[:, None], negative], 1)
        self.queue.assign(tf.concat([tnt.gather_batch(keys), self.queue], 0)[:12])
        return tf.reduce_mean(tf.reduce_logsumexp(logits, axis=1) - positive)


class OtherRows(OwnStep):
    """The mean of what is gathered of more rows than the batch has."""

    def compute(self, data: Any) -> Any:
        features = self(data)
        return tf.reduce_mean(tf.square(tnt.gather_batch(tf.concat([features, features[1:]], 0))))


class InLoop(OwnStep):
    """Sums of each row, in a loop over them."""

    def compute(self, data: Any) -> Any:
        return tf.reduce_mean(tf.square(tf.map_fn(tnt.batch_sum, self(data))))


class InBranch(OwnStep):
    """The mean over the batch where it has some rows, the rows themselves where it has few."""

    def compute(self, data: Any) -> Any:
        features = self(data)
        return tf.cond(
            tf.shape(data)[0] > 2,
            lambda: tf.reduce_sum(tf.square(tnt.batch_mean(features))),
            lambda: tf.reduce_mean(tf.square(tnt.gather_batch(features))),
        )


class GradientPenalty(OwnStep):
    """The gradient of what the mean over the batch is a part of: second derivatives."""

    def compute(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(data)
            values = tf.square(self(data - tnt.batch_mean(data)))
        return tf.reduce_mean(tf.square(tape.gradient(values, data)))


OWN_STEPS = {
    cls.__name__: cls
    for cls in (
        *(Contrastive, OwnQueries, MaskedQuotient, SelectedRows, PickedRows, Momentum),
        *(OtherRows, InLoop, InBranch, GradientPenalty),
    )
}


def own_step(distributed: bool, name: str, *arguments: Any, **compile_arguments: Any) -> Any:
    """A model of `OWN_STEPS`."""
    keras.utils.set_random_seed(21)
    model = OWN_STEPS[name](*arguments)
    model(np.zeros((1, 10), "float32"))
    return _trained(model, distributed, **compile_arguments)


class Summed(OwnQueries):
    """The sum of the losses of all samples instead of their mean."""

    def __init__(self, scales_loss: bool) -> None:
        super().__init__(scales_loss)
        self.loss_tracker = keras.metrics.Sum(name="loss")

    def compute(self, data: Any) -> Any:
        return tf.cast(tf.shape(data)[0], tf.float32) * super().compute(data)


def summed(distributed: bool, scales_loss: bool) -> Any:
    """A step whose gradients are to be added up over ranks, as its proof finds."""
    keras.utils.set_random_seed(25)
    model = Summed(scales_loss)
    model(np.zeros((1, 10), "float32"))
    if distributed:
        model = tnt.Model(model)
    return _trained(model, distributed, optimizer=keras.optimizers.SGD(0.01))


def half_precision(distributed: bool, policy: str) -> Any:
    """NT-Xent on features of 16 bits, with a loss scale if they are float16."""
    keras.mixed_precision.set_global_policy(policy)
    try:
        return own_step(distributed, "Contrastive", True)
    finally:
        keras.mixed_precision.set_global_policy("float32")


def _dense_model(*layers: Any) -> Any:
    keras.utils.set_random_seed(22)
    return keras.Sequential([keras.Input((10,)), *layers, keras.layers.Dense(10)])


def compiled_in_batch_negatives(distributed: bool) -> Any:
    """A loss function for `compile` with one value for each sample of the rank."""

    def in_batch_negatives(y_true: Any, y_pred: Any) -> Any:
        queries, keys = _unit(y_pred[:, :5]), _unit(y_pred[:, 5:])
        logits = tf.matmul(queries, tnt.gather_batch(keys), transpose_b=True)
        return tf.reduce_logsumexp(logits, axis=1) - tf.reduce_sum(queries * keys, axis=1)

    return _trained(_dense_model(), distributed, samples()[0], loss=in_batch_negatives)


def compiled_nt_xent(distributed: bool) -> Any:
    """A loss function for `compile` with one value for the whole batch, and a metric likewise."""

    def whole_batch(y_true: Any, y_pred: Any) -> Any:
        rows = tnt.gather_batch(y_pred)
        return nt_xent(rows[:, :5], rows[:, 5:])

    return _trained(_dense_model(), distributed, samples()[0], loss=whole_batch, metrics=[rmse])


def rmse(y_true: Any, y_pred: Any) -> Any:
    """The root of the mean over the whole batch."""
    return tf.sqrt(tnt.batch_mean(tf.reduce_mean(tf.square(y_true - y_pred), axis=1)))


def compiled_rmse(distributed: bool) -> Any:
    """The root of a mean as the loss."""
    return _trained(_dense_model(), distributed, samples()[0], loss=rmse, metrics=["mae", rmse])


class Experts(keras.layers.Layer):
    """A mixture of experts with the balance loss: a product of two means over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = keras.layers.Dense(3, activation="softmax")
        self.experts = [keras.layers.Dense(10, activation="tanh") for _ in range(3)]

    def call(self, inputs: Any) -> Any:
        gate = self.gate(inputs)
        chosen = keras.ops.one_hot(keras.ops.argmax(gate, axis=-1), 3)
        balance = keras.ops.sum(tnt.batch_mean(chosen) * tnt.batch_mean(gate))
        self.add_loss(0.5 * 3 * balance)
        outputs = keras.ops.stack([expert(inputs) for expert in self.experts], axis=1)
        return keras.ops.sum(gate[:, :, None] * outputs, axis=1)


def mixture_of_experts(distributed: bool) -> Any:
    """A layer that adds a loss of means over the batch."""
    return _trained(_dense_model(Experts()), distributed, samples()[0], loss="mse")


class Codebook(keras.layers.Layer):
    """VQ-VAE: codes are moving averages of sums over the batch."""

    def build(self, shape: Any) -> None:
        normal = keras.initializers.RandomNormal(seed=1)
        self.sums = self.add_weight(shape=(4, 10), trainable=False, initializer=normal)
        self.counts = self.add_weight(shape=(4,), trainable=False, initializer="ones")

    def call(self, inputs: Any, training: bool = False) -> Any:
        codes = self.sums / self.counts[:, None]
        distances = tf.reduce_sum(tf.square(inputs[:, None] - codes), axis=2)
        chosen = tf.one_hot(tf.argmin(distances, axis=1), 4)
        if training:
            rows = tf.stop_gradient(inputs)
            sums = tnt.batch_sum(chosen[:, :, None] * rows[:, None])
            self.sums.assign(0.9 * self.sums + 0.1 * sums)
            self.counts.assign(0.9 * self.counts + 0.1 * tnt.batch_sum(chosen))
        return inputs + tf.stop_gradient(tf.matmul(chosen, codes) - inputs)


def codebook(distributed: bool) -> Any:
    """A layer whose state is an average of sums."""
    return _trained(_dense_model(Codebook()), distributed, samples()[0], loss="mse")


def functional(distributed: bool) -> Any:
    """The operations on the tensors of a functional model, which was saved and loaded."""
    keras.utils.set_random_seed(23)
    inputs = keras.Input((10,))
    hidden = keras.layers.Dense(6, activation="tanh")(inputs)
    centred = hidden - tnt.batch_mean(hidden, weights=keras.ops.abs(inputs[:, 0]))
    similarity = keras.ops.matmul(centred, keras.ops.transpose(tnt.gather_batch(centred)))
    assert similarity.shape == (None, None)
    near = keras.ops.mean(similarity, axis=1, keepdims=True)
    total = tnt.batch_sum(centred * centred)
    model = keras.Model(inputs, keras.layers.Dense(10)(centred * near / total))
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/functional.keras")
        model = keras.models.load_model(f"{folder}/functional.keras")
    return _trained(model, distributed, samples()[0], loss="mse")


class Recorder(keras.Model):
    """Its test steps give what `compute(data)` gives: tensors by name."""

    def __init__(self, compute: Any) -> None:
        super().__init__()
        self.compute = compute

    def test_step(self, data: Any) -> Any:
        return self.compute(data)


class Keep(keras.callbacks.Callback):
    """Keeps the logs of each test step, as `seen`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, np.ndarray]] = []

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append({name: np.asarray(value) for name, value in logs.items()})


DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int64", "bool"]


def rows_in_order(run_eagerly: bool, own_counts: list[list[int]] | None = None) -> Any:
    """What the operations give in steps on batches of 7, 7, 7 and 1 samples, for all dtypes.

    Args:
        run_eagerly: Whether no graph of the step is traced.
        own_counts: For each rank the numbers of samples of its own batches; by default Tarantella
            splits the batches.
    """

    def compute(x: Any) -> Any:
        values = {
            "pairs": tnt.gather_batch(tf.repeat(x, 2, axis=0)),
            "no weights": tnt.batch_mean(x, weights=tf.zeros_like(x[:, :1])),
            "weighted": tnt.batch_mean(x, weights=x[:, 0]),
        }
        for dtype in DTYPES:
            values[f"rows, {dtype}"] = tnt.gather_batch(tf.cast(x, dtype))
            values[f"sum, {dtype}"] = tnt.batch_sum(tf.cast(x % 3, dtype))
            values[f"mean, {dtype}"] = tnt.batch_mean(tf.cast(x % 3, dtype))
        return values

    keep = Keep()
    model = tnt.Model(Recorder(compute))
    model.compile(run_eagerly=run_eagerly)
    if own_counts is None:
        x = np.arange(44, dtype="float32").reshape(22, 2)
        model.evaluate(x, batch_size=7, verbose=0, callbacks=[keep])
        return keep.seen
    rank = tnt.get_rank()
    batches = [
        np.stack([np.arange(count) * 10.0 + rank, np.full(count, step)], 1).astype("float32")
        for step, count in enumerate(own_counts[rank])
    ]
    data = tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=tf.TensorSpec((None, 2), tf.float32)
    )
    data = data.apply(tf.data.experimental.assert_cardinality(len(batches)))
    model.evaluate(
        data, steps=len(batches), verbose=0, callbacks=[keep], tnt_distribute_dataset=False
    )
    return keep.seen


def _run(compute: Any) -> str:
    """The error that a training with this loss of data raises."""

    class Step(OwnStep):
        def compute(self, data: Any) -> Any:
            return compute(self, data)

    keras.utils.set_random_seed(24)
    model = Step()
    model(np.zeros((1, 10), "float32"))
    try:
        _trained(model, True)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


MISTAKES: dict[str, Callable[[], str]] = {
    "scalar": lambda: _run(lambda model, x: tnt.batch_mean(tf.reduce_mean(model(x)))),
    "text": lambda: _run(lambda model, x: tnt.gather_batch(tf.strings.as_string(x))),
    "ragged": lambda: _run(lambda model, x: tnt.batch_sum(tf.RaggedTensor.from_tensor(x))),
    "weights": lambda: _run(lambda model, x: tnt.batch_mean(x[:, 0], weights=x)),
}
"""Wrong uses; each gives the error that it ends with."""


def errors_of_all() -> dict[str, str]:
    """The errors of all wrong uses, by name."""
    return {name: make_mistake() for name, make_mistake in MISTAKES.items()}
