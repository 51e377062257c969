"""What `compile` and `fit` offer: losses, weights, several inputs and outputs, forms of data."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import network

layers = keras.layers


def _regression(loss: Any, outputs: int = 1, **fit_arguments: Any) -> Training:
    model = network(outputs)
    model.compile(keras.optimizers.SGD(0.05), loss, metrics=["mae"])
    return model, data.of_arrays(data.features(), data.targets(outputs), **fit_arguments)


@wrong()
def largest_errors_of_the_batch() -> Training:
    """Needs more rows than are looked at first."""

    def loss(y: Any, p: Any) -> Any:
        return tf.reduce_mean(tf.math.top_k(tf.reshape((y - p) ** 2, [-1]), 7).values)

    return _regression(loss, batch_size=data.NUM_SAMPLES)


@wrong()
def loss_divided_by_the_batch_inside() -> Training:
    """A mean of values that are divided by the number of rows once more."""

    def loss(y: Any, p: Any) -> Any:
        return 7.0 * tf.reduce_mean((y - p) ** 2, axis=-1) / tf.cast(tf.shape(y)[0], tf.float32)

    return _regression(loss)


@wrong()
def loss_scaled_by_the_batch_inside() -> Training:
    """Errors are divided by the deviation of the batch's targets."""

    def loss(y: Any, p: Any) -> Any:
        return tf.reduce_mean((y - p) ** 2, axis=-1) / (tf.math.reduce_variance(y) + 0.1)

    return _regression(loss)


@wrong()
def summing_loss_function() -> Training:
    """A function that gives the sum over the batch."""

    def loss(y: Any, p: Any) -> Any:
        return tf.reduce_sum((y - p) ** 2) / 10.0

    return _regression(loss)


@wrong(evaluates=False)
def predictions_relative_to_the_batch() -> Training:
    class Relative(keras.Model):
        def predict_step(self, batch: Any) -> Any:
            scores = self(batch[0] if isinstance(batch, tuple) else batch)
            return tf.nn.softmax(scores, axis=0)

    inner = network()
    model = Relative(inner.inputs, inner.outputs)
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model, data.of_arrays(data.features(), data.targets())


@wrong(evaluates=False)
def predictions_of_pairs() -> Training:
    """The similarity of each row to each row of its batch, of the first 2 features."""

    class Pairs(keras.Model):
        def predict_step(self, batch: Any) -> Any:
            scores = self(batch[0] if isinstance(batch, tuple) else batch)
            nearest = tf.reduce_min(
                tf.abs(scores - tf.transpose(scores)) + 1e3 * tf.eye(tf.shape(scores)[0]), axis=1
            )
            return nearest[:, None]

    inner = network()
    model = Pairs(inner.inputs, inner.outputs)
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return model, data.of_arrays(data.features(), data.targets())


@right()
def multilayer_perceptron() -> Training:
    model = network(3, activation="softmax")
    model.compile(
        keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model, data.of_arrays(data.features(), data.labels())


@right()
def smooth_regression_losses() -> Training:
    return _regression(keras.losses.LogCosh(), outputs=2)


@right()
def huber_as_sum() -> Training:
    return _regression(keras.losses.Huber(reduction="sum"))


@right()
def sample_weights() -> Training:
    return _regression("mse", sample_weight=data.sample_weights())


@right()
def mean_with_sample_weights() -> Training:
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    return _regression(loss, sample_weight=data.sample_weights())


@right()
def loss_function_of_samples() -> Training:
    """Quantile regression."""

    def pinball(y: Any, p: Any) -> Any:
        return tf.reduce_mean(tf.maximum(0.8 * (y - p), 0.2 * (p - y)), axis=-1)

    return _regression(pinball, outputs=2)


@right()
def class_weights() -> Training:
    model = network(3, activation="softmax")
    model.compile(
        keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    arguments = data.of_arrays(data.features(), data.labels())
    return model, arguments | {"class_weight": {0: 0.3, 1: 2.0, 2: 5.0}}


@right()
def several_labels() -> Training:
    model = network(4, activation="sigmoid")
    metrics = [keras.metrics.AUC(multi_label=True, num_labels=4), "binary_accuracy"]
    model.compile(keras.optimizers.SGD(0.1), keras.losses.BinaryCrossentropy(), metrics=metrics)
    return model, data.of_arrays(data.features(), data.bits(4))


@right()
def focal_and_smoothed_classes() -> Training:
    model = network(3, activation="softmax")
    loss = keras.losses.CategoricalFocalCrossentropy(label_smoothing=0.1)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["categorical_accuracy"])
    return model, data.of_arrays(data.features(), data.one_hot())


@right()
def hinge_losses() -> Training:
    model = network(1, activation="tanh")
    model.compile(keras.optimizers.SGD(0.1), "squared_hinge", metrics=["hinge"])
    return model, data.of_arrays(data.features(), 2.0 * data.bits() - 1.0)


@right()
def divergence_and_poisson() -> Training:
    x = keras.Input((6,))
    hidden = layers.Dense(4, activation="tanh")(x)
    outputs = {
        "share": layers.Dense(3, activation="softmax", name="share")(hidden),
        "count": layers.Dense(1, activation="exponential", name="count")(hidden),
    }
    model = keras.Model(x, outputs)
    model.compile(
        keras.optimizers.SGD(0.05),
        {"share": "kl_divergence", "count": "poisson"},
        loss_weights={"share": 2.0, "count": 0.5},
        metrics={"share": ["categorical_accuracy"], "count": ["mae"]},
    )
    truth = {"share": data.one_hot(), "count": np.abs(data.targets())}
    return model, data.of_arrays(data.features(), truth)


@right()
def dictionaries_of_inputs_and_outputs() -> Training:
    """Outputs whose losses have different denominators."""
    numbers = keras.Input((6,), name="numbers")
    words = keras.Input((5,), dtype="int32", name="words")
    table = layers.Embedding(11, 4, mask_zero=True)(words)
    tags = layers.Dense(3, activation="softmax", name="tags")(table)
    value = layers.Dense(1, name="value")(numbers)
    model = keras.Model({"numbers": numbers, "words": words}, {"tags": tags, "value": value})
    model.compile(
        keras.optimizers.SGD(0.05),
        {"tags": "sparse_categorical_crossentropy", "value": keras.losses.Huber(reduction="sum")},
        metrics={"tags": ["accuracy"]},
    )
    tokens = data.tokens()
    truth = {"tags": tokens % 3, "value": data.targets()}
    return model, data.of_arrays({"numbers": data.features(), "words": tokens}, truth)


@right()
def shuffled_dataset() -> Training:
    model = network()
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    dataset = tf.data.Dataset.from_tensor_slices((data.features(), data.targets()))
    shuffled = dataset.shuffle(9, seed=5).batch(data.BATCH_SIZE)
    return model, {"x": shuffled, "epochs": 2, "verbose": 0}


@right()
def repeated_dataset() -> Training:
    model = network()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    dataset = tf.data.Dataset.from_tensor_slices((data.features(), data.targets()))
    repeated = dataset.repeat(3).batch(data.BATCH_SIZE)
    return model, {"x": repeated, "epochs": 2, "steps_per_epoch": 3, "verbose": 0}


@right()
def validated_training() -> Training:
    model = network()
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    validation = (data.features(seed=21), data.targets(seed=22))
    return model, data.of_arrays(
        data.features(), data.targets(), validation_data=validation, validation_batch_size=5
    )


@right()
def sparse_features() -> Training:
    """A dataset of sparse rows."""
    dense = data.features(8)
    sparse = tf.sparse.from_dense(np.where(dense > 0.5, dense, 0.0).astype("float32"))
    x = keras.Input((8,), sparse=True)
    hidden = layers.Dense(4, activation="tanh")(x)
    model = keras.Model(x, layers.Dense(1)(hidden))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, data.of_dataset(sparse, data.targets())


@right()
def categories_and_crosses() -> Training:
    """Preprocessing layers inside of the model."""
    x = keras.Input((1,), dtype="int64")
    one_hot = layers.CategoryEncoding(11, output_mode="one_hot")(x)
    hashed = layers.Hashing(5, output_mode="one_hot")(x)
    model = keras.Model(x, layers.Dense(1)(layers.Concatenate()([one_hot, hashed])))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, data.of_arrays(data.labels(11)[:, None].astype("int64"), data.targets())


@right()
def wide_and_deep() -> Training:
    x = keras.Input((6,))
    deep = layers.PReLU()(layers.Dense(4)(x))
    deep = layers.LayerNormalization()(layers.Dense(3)(deep))
    y = layers.Dense(1)(layers.Concatenate()([x, layers.UnitNormalization()(deep)]))
    model = keras.Model(x, y)
    model.compile(keras.optimizers.SGD(0.05), "mean_squared_error", metrics=["cosine_similarity"])
    return model, data.of_arrays(data.features(), data.targets())
