"""Runs of single features, with plain Keras and with Tarantella; each returns numpy values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_keras

NUM_SAMPLES = 21
"""Batches of 5 are not even for 2 or 3 ranks, and the last one has a single sample."""


def samples(num_samples: int = NUM_SAMPLES, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of shape `(num_samples, 10)` and labels of 3 classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_samples, 10)).astype("float32")
    return x, rng.integers(0, 3, num_samples).astype("int32")


def weights_of(num_samples: int = NUM_SAMPLES) -> np.ndarray:
    """One weight per sample, very different ones."""
    return np.linspace(0.1, 3.0, num_samples, dtype="float32")


def classifier(distributed: bool, **compile_arguments: Any) -> Any:
    """A compiled classifier of 10 features, as functional model.

    Its optimizer is built, since TensorFlow traces a step twice that creates variables.
    """
    keras.utils.set_random_seed(11)
    inputs = keras.Input((10,))
    x = keras.layers.Dense(8, activation="tanh")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(x))
    arguments = {
        "optimizer": keras.optimizers.SGD(0.1, momentum=0.9),
        "loss": "sparse_categorical_crossentropy",
        "metrics": ["accuracy"],
        **compile_arguments,
    }
    model = _compiled(model, distributed, arguments)
    model.optimizer.build(model.trainable_variables)
    return model


def weighted_classifier(distributed: bool) -> Any:
    """The classifier with a metric that counts sample weights."""
    return classifier(distributed, weighted_metrics=["accuracy"], metrics=None)


def restarted(make: Callable[[bool], Any], distributed: bool) -> Any:
    """The model that `make` makes, with its first weights and optimizer state.

    It is one object for all runs of a process, so that TensorFlow traces its steps once for all.
    """
    keras.utils.set_random_seed(11)
    model, values = _kept(make, distributed)
    for variable, value in zip(_state(model), values, strict=True):
        variable.assign(value)
    if isinstance(model, tnt_keras.Model):
        model._tnt_preparation.num_fits = 0  # orders are drawn by it
    return model


@functools.cache
def _kept(make: Callable[[bool], Any], distributed: bool) -> tuple[Any, list[np.ndarray]]:
    model = make(distributed)
    return model, [np.array(variable) for variable in _state(model)]


def _state(model: Any) -> list[Any]:
    return [*model.weights, *model.optimizer.variables]


def _compiled(model: Any, distributed: bool, arguments: dict[str, Any]) -> Any:
    if distributed:
        model = tnt_keras.Model(model)
    model.compile(**arguments)
    return model


def _results(model: Any, history: Any) -> dict[str, Any]:
    return {"weights": [np.asarray(w) for w in model.get_weights()], "history": history.history}


def sample_weights(distributed: bool, reduction: str) -> dict[str, Any]:
    """A dataset with sample weights, for each reduction of the loss."""
    loss = keras.losses.SparseCategoricalCrossentropy(reduction=reduction)
    model = classifier(distributed, loss=loss, weighted_metrics=["accuracy"], metrics=None)
    data = tf.data.Dataset.from_tensor_slices((*samples(), weights_of())).batch(5)
    return _results(model, model.fit(data, epochs=3, verbose=0))


def ignored_class(distributed: bool) -> dict[str, Any]:
    """A loss that masks by label, so that its denominator is the number of other labels."""
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=0)
    model = classifier(distributed, loss=loss, metrics=None)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(5)
    return _results(model, model.fit(data, epochs=3, verbose=0))


def class_weights(distributed: bool) -> dict[str, Any]:
    """`class_weight` with a dataset."""
    model = classifier(distributed)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(5)
    history = model.fit(data, epochs=3, verbose=0, class_weight={0: 0.2, 1: 1.5, 2: 4.0})
    return _results(model, history)


def arrays(distributed: bool) -> dict[str, Any]:
    """NumPy arrays, sample weights and a validation split, in the given order."""
    model = classifier(distributed)
    x, y = samples()
    history = model.fit(
        x,
        y,
        batch_size=5,
        sample_weight=weights_of(),
        validation_split=0.3,
        shuffle=False,
        epochs=3,
        verbose=0,
    )
    return _results(model, history) | {
        "evaluate": model.evaluate(x, y, batch_size=7, verbose=0),
        "predict": model.predict(x, batch_size=7, verbose=0),
    }


def several_outputs(distributed: bool) -> dict[str, Any]:
    """Two inputs and two outputs with losses of different denominators, as dictionaries."""
    keras.utils.set_random_seed(12)
    features = keras.Input((10,), name="features")
    tokens = keras.Input((4,), dtype="int32", name="tokens")
    embedded = keras.layers.Embedding(6, 5, mask_zero=True)(tokens)
    tags = keras.layers.Dense(3, activation="softmax", name="tags")(embedded)
    label = keras.layers.Dense(3, activation="softmax", name="label")(features)
    model = _compiled(
        keras.Model({"features": features, "tokens": tokens}, {"tags": tags, "label": label}),
        distributed,
        {
            "optimizer": "sgd",
            "loss": {
                "tags": "sparse_categorical_crossentropy",
                "label": keras.losses.SparseCategoricalCrossentropy(reduction="sum"),
            },
            "loss_weights": {"tags": 0.7, "label": 0.1},
            "metrics": {"label": ["accuracy"]},
        },
    )
    x, y = samples()
    rng = np.random.default_rng(4)
    words = rng.integers(0, 6, (NUM_SAMPLES, 4)).astype("int32")
    data = tf.data.Dataset.from_tensor_slices(
        (
            {"features": x, "tokens": words},
            {"tags": rng.integers(0, 3, (NUM_SAMPLES, 4)).astype("int32"), "label": y},
        )
    ).batch(5)
    results = _results(model, model.fit(data, epochs=3, verbose=0))
    predictions = model.predict(data, verbose=0)
    return results | {"predict": [predictions["tags"], predictions["label"]]}


def custom_step(distributed: bool) -> dict[str, Any]:
    """A subclassed, unbuilt model with its own train_step and trackers under other names."""
    keras.utils.set_random_seed(13)

    class Autoencoder(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = keras.layers.Dense(4, activation="tanh")
            self.decoder = keras.layers.Dense(10)
            self.total_tracker = keras.metrics.Mean(name="total_loss")
            self.error_tracker = keras.metrics.MeanAbsoluteError(name="error")

        @property
        def metrics(self) -> list[Any]:
            return [self.total_tracker, self.error_tracker]

        def call(self, inputs: Any) -> Any:
            return self.decoder(self.encoder(inputs))

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                outputs = self(data, training=True)
                loss = tf.reduce_mean(tf.square(outputs - data))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.total_tracker.update_state(loss)
            self.error_tracker.update_state(data, outputs)
            return {
                "loss": self.total_tracker.result(),
                "error": self.error_tracker.result(),
                "batch_loss": loss,
            }

    model = _compiled(Autoencoder(), distributed, {"optimizer": keras.optimizers.SGD(0.1)})
    data = tf.data.Dataset.from_tensor_slices(samples()[0]).batch(5)
    return _results(model, model.fit(data, epochs=3, verbose=0))


def many_metrics(distributed: bool) -> dict[str, Any]:
    """Metrics whose results are no means: they are right only if their states are summed."""
    metrics = [
        keras.metrics.AUC(),
        keras.metrics.F1Score(average="macro"),
        keras.metrics.Precision(),
        keras.metrics.RootMeanSquaredError(),
        keras.metrics.R2Score(),
    ]
    model = classifier(distributed, loss="categorical_crossentropy", metrics=metrics)
    x, y = samples()
    data = tf.data.Dataset.from_tensor_slices((x, np.eye(3, dtype="float32")[y])).batch(5)
    results = _results(model, model.fit(data, epochs=2, verbose=0))
    return results | {"evaluate": model.evaluate(data, verbose=0)}


def on_batch(distributed: bool) -> dict[str, Any]:
    """`train_on_batch` and its relatives take a global batch."""
    model = classifier(distributed)
    x, y = samples(7)
    train = [model.train_on_batch(x, y, sample_weight=weights_of(7)) for _ in range(3)]
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "train": np.asarray(train),
        "test": np.asarray(model.test_on_batch(x, y)),
        "predict": model.predict_on_batch(x[:2]),
    }


def execution(distributed: bool, **compile_arguments: Any) -> dict[str, Any]:
    """Ways to execute steps: eagerly, several at once, with optimizer features."""
    optimizer = keras.optimizers.AdamW(
        1e-2, global_clipnorm=0.5, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=2
    )
    model = classifier(distributed, optimizer=optimizer, **compile_arguments)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(5)
    results = _results(model, model.fit(data, epochs=3, verbose=0))
    return results | {"predict": model.predict(data, verbose=0)}


def accumulation(distributed: bool) -> dict[str, Any]:
    """Gradient accumulation over 3 steps."""
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=3)
    model = classifier(distributed, optimizer=optimizer)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(4)
    return _results(model, model.fit(data, epochs=3, verbose=0))


def infinite_data(distributed: bool) -> dict[str, Any]:
    """`repeat` and `steps_per_epoch`, with batches across the end of the samples."""
    model = classifier(distributed)
    data = (
        tf.data.Dataset.from_tensor_slices(samples()).shuffle(NUM_SAMPLES, seed=1).repeat().batch(5)
    )
    history = model.fit(data, epochs=3, steps_per_epoch=4, verbose=0)
    return _results(model, history)


def loss_scaling(distributed: bool) -> dict[str, Any]:
    """Mixed precision with float16, whose optimizer is wrapped in a LossScaleOptimizer."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = classifier(distributed)
        data = tf.data.Dataset.from_tensor_slices(samples()).batch(5)
        results = _results(model, model.fit(data, epochs=2, verbose=0))
        assert type(model.optimizer).__name__ == "LossScaleOptimizer"
        return results
    finally:
        keras.mixed_precision.set_global_policy("float32")


class Gan(keras.Model):
    """Two networks with an optimizer each, set after `compile` as Keras' examples do."""

    def __init__(self, gradients_first: bool) -> None:
        super().__init__()
        self.gradients_first = gradients_first
        self.generator = keras.Sequential([keras.Input((3,)), keras.layers.Dense(10)])
        self.critic = keras.Sequential([keras.Input((10,)), keras.layers.Dense(1)])
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def compile(self, generator_optimizer: Any, critic_optimizer: Any) -> None:
        super().compile()
        self.generator_optimizer = generator_optimizer
        self.critic_optimizer = critic_optimizer

    @property
    def metrics(self) -> list[Any]:
        return [self.loss_tracker]

    def train_step(self, data: Any) -> Any:
        noise = data[:, :3]  # of the sample, so that it is the same on any number of ranks
        critic_gradients = self._critic_gradients(data, noise)
        if self.gradients_first:
            generator_gradients = self._generator_gradients(noise)
            self._apply(self.critic_optimizer, critic_gradients, self.critic)
        else:
            self._apply(self.critic_optimizer, critic_gradients, self.critic)
            generator_gradients = self._generator_gradients(noise)
        self._apply(self.generator_optimizer, generator_gradients, self.generator)
        return {"loss": self.loss_tracker.result()}

    def _critic_gradients(self, data: Any, noise: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = self.critic(data) - self.critic(self.generator(noise))
            loss = tf.reduce_mean(tf.square(scores - 1.0))
        return tape.gradient(loss, self.critic.trainable_variables)

    def _generator_gradients(self, noise: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.critic(self.generator(noise))))
        self.loss_tracker.update_state(loss)
        return tape.gradient(loss, self.generator.trainable_variables)

    def _apply(self, optimizer: Any, gradients: Any, network: Any) -> None:
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))


def two_optimizers(distributed: bool, gradients_first: bool) -> dict[str, Any]:
    """A model whose step uses optimizers that `compile` of Keras has not seen."""
    keras.utils.set_random_seed(14)
    model = Gan(gradients_first)
    if distributed:
        model = tnt_keras.Model(model)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.SGD(0.05))
    return _results(
        model, model.fit(samples()[0], batch_size=5, shuffle=False, epochs=3, verbose=0)
    )


class Regressor(keras.Model):
    """A model of one layer, whose step is replaced in what follows."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(10)
        self.total = keras.metrics.Sum(name="total")
        self.hidden = keras.metrics.MeanSquaredError(name="hidden")

    @property
    def metrics(self) -> list[Any]:
        return [self.total]  # leaves the other one out

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def gradient_step(self, data: Any) -> None:
        with tf.GradientTape() as tape:
            outputs = self(data, training=True)
            # One value per sample, reduced by the step itself.
            loss = tf.reduce_mean(keras.losses.MeanSquaredError(reduction=None)(data, outputs))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.total.update_state(tf.reduce_sum(outputs))
        self.hidden.update_state(data, outputs)


class PlainStep(Regressor):
    """Its step sees bare inputs, as Keras hands them over for arrays without targets."""

    def train_step(self, data: Any) -> Any:
        assert tf.is_tensor(data)
        self.gradient_step(data)
        return {"total": self.total.result(), "hidden": self.hidden.result()}


class FunctionStep(Regressor):
    """Its step is a `tf.function`, and calls another one."""

    @tf.function
    def train_step(self, data: Any) -> Any:
        self.inner(data)
        return {"total": self.total.result(), "hidden": self.hidden.result()}

    @tf.function
    def inner(self, data: Any) -> None:
        self.gradient_step(data)


def own_step(distributed: bool, is_function: bool) -> dict[str, Any]:
    """Sums, hidden metrics and unreduced losses in a step of the user's own, on bare arrays."""
    keras.utils.set_random_seed(15)
    model = FunctionStep() if is_function else PlainStep()
    model = _compiled(model, distributed, {"optimizer": keras.optimizers.SGD(0.1)})
    return _results(
        model, model.fit(samples()[0], batch_size=5, shuffle=False, epochs=2, verbose=0)
    )


def several_rows_per_sample(distributed: bool) -> dict[str, Any]:
    """Predictions of two rows for each sample, the last batch of fewer samples than ranks."""
    inputs = keras.Input((10,))
    model = keras.Model(inputs, keras.ops.reshape(inputs, (-1, 5)))
    if distributed:
        model = tnt_keras.Model(model)
    x = samples()[0]
    return {"weights": [], "predict": model.predict(x, batch_size=7, verbose=0)}


@keras.saving.register_keras_serializable("tests")
class Counter(keras.layers.Layer):
    """Counts samples in a weight that is declared as a sum."""

    def build(self, shape: Any) -> None:
        self.count = self.add_weight(shape=(), trainable=False, aggregation="sum", name="count")

    def call(self, inputs: Any) -> Any:
        self.count.assign_add(tf.cast(tf.shape(inputs)[0], tf.float32))
        return inputs


def counting_layer(distributed: bool) -> dict[str, Any]:
    """A layer's own counter counts the samples of all ranks."""
    keras.utils.set_random_seed(16)
    model = keras.Sequential([keras.Input((10,)), Counter(), keras.layers.Dense(10)])
    model = _compiled(model, distributed, {"optimizer": "sgd", "loss": "mse"})
    x = samples()[0]
    return _results(model, model.fit(x, x, batch_size=5, shuffle=False, verbose=0))


WITHOUT_ARGUMENTS = [
    ignored_class,
    class_weights,
    arrays,
    several_outputs,
    custom_step,
    many_metrics,
    on_batch,
    accumulation,
    infinite_data,
    several_rows_per_sample,
    counting_layer,
]
"""Features of which there is one run."""
