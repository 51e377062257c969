"""Moving averages in layers and models, and what else follows the weights step by step."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .layer_state import Keeping, after_features
from .steps import OwnStep, mean_squared_error, network, own_step


@wrong()
def moving_maximum() -> Training:
    """A moving average of the largest entry of each batch."""
    return after_features(Keeping(lambda kept, x: 0.9 * kept + 0.1 * tf.reduce_max(tf.abs(x))))


@right()
def mean_of_the_batch_after_a_large_number() -> Training:
    """What is kept begins far above all values: rounding must not depend on it."""
    layer = Keeping(lambda kept, x: tf.reduce_mean(x, axis=0), (6,))
    layer.kept.assign(tf.fill([6], 1e9))
    return after_features(layer)


@wrong()
def moving_average_of_sums() -> Training:
    """The cluster sizes of a VQ-VAE: neither the mean nor the sum of what ranks have."""
    return after_features(
        Keeping(lambda kept, x: 0.8 * kept + 0.2 * tf.reduce_sum(tf.nn.softmax(x), axis=0), (6,))
    )


@wrong()
def moving_deviation() -> Training:
    return after_features(
        Keeping(lambda kept, x: 0.8 * kept + 0.2 * tf.math.reduce_std(x, axis=0), (6,))
    )


@wrong()
def moving_average_that_is_used_at_once() -> Training:
    """The centre is moved by the batch before it is subtracted."""
    return after_features(
        Keeping(
            lambda kept, x: 0.5 * kept + 0.5 * tf.reduce_mean(x, axis=0),
            (6,),
            use=lambda x, kept: x - kept,
        )
    )


@wrong(evaluates=False)
def codebook_of_moving_averages() -> Training:
    """VQ-VAE: codes are the quotients of two moving averages of sums."""

    class Codebook(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            start = keras.initializers.RandomNormal(seed=1)
            for name, shape, initializer in (
                ("codes", (4, 3), start),
                ("sums", (4, 3), start),
                ("sizes", (4,), "ones"),
            ):
                weight = self.add_weight(
                    shape=shape, initializer=initializer, trainable=False, name=name
                )
                setattr(self, name, weight)

        def call(self, z: Any, training: bool = False) -> Any:
            distances = tf.reduce_sum((z[:, None] - self.codes.value[None]) ** 2, axis=-1)
            chosen = tf.one_hot(tf.argmin(distances, axis=-1), 4)
            if training:
                sums = tf.matmul(chosen, z, transpose_a=True)
                self.sizes.assign(0.7 * self.sizes + 0.3 * tf.reduce_sum(chosen, axis=0))
                self.sums.assign(0.7 * self.sums + 0.3 * tf.stop_gradient(sums))
                self.codes.assign(self.sums / (self.sizes.value[:, None] + 1e-3))
            nearest = tf.matmul(chosen, self.codes.value)
            self.add_loss(0.25 * tf.reduce_mean((tf.stop_gradient(nearest) - z) ** 2))
            return z + tf.stop_gradient(nearest - z)

    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(3), Codebook(), keras.layers.Dense(6)]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, data.of_arrays(data.features(), data.features())


@right()
def moving_average_of_means() -> Training:
    """The centre of DINO: used before it is moved."""

    class Centred(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.centre = self.add_weight(
                shape=(6,), initializer="zeros", trainable=False, name="centre"
            )

        def call(self, x: Any, training: bool = False) -> Any:
            centred = x - self.centre.value
            if training:
                self.centre.assign(0.9 * self.centre + 0.1 * tf.reduce_mean(x, axis=0))
            return centred

    return after_features(Centred())


@right()
def teacher_of_averaged_weights() -> Training:
    """Mean teacher: another network follows the student's weights."""
    teacher = network()

    class MeanTeacher(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.teacher = teacher
            self.teacher.trainable = False

        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            for slow, fast in zip(self.teacher.weights, self.inner.weights, strict=True):
                slow.assign(0.9 * slow + 0.1 * fast)
            return super().logs(x, y, loss)

    def consistent(model: Any, x: Any, y: Any) -> Any:
        agreement = tf.reduce_mean((model(0.9 * x) - model.teacher(x)) ** 2)
        return mean_squared_error(model, x, y) + agreement

    model = own_step(consistent, kind=MeanTeacher)
    return model, data.of_arrays(data.features(), data.targets())
