"""Layers and models that keep values between steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, network, own_step, squared_errors


class Keeping(keras.layers.Layer):
    """Keeps a variable, whose new value it computes in training from the old one and its input.

    Args:
        new: Returns the new value.
        shape: Of the variable.
        dtype_kept: Of the variable.
        use: Returns the layer's output from the input and the new value; by default the input.
    """

    def __init__(
        self,
        new: Callable[[Any, Any], Any],
        shape: tuple[int, ...] = (),
        dtype_kept: str = "float32",
        use: Callable[[Any, Any], Any] = lambda x, kept: x,
    ) -> None:
        super().__init__()
        self.new = new
        self.use = use
        self.kept = self.add_weight(
            shape=shape, dtype=dtype_kept, initializer="zeros", trainable=False, name="kept"
        )

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.kept.assign(self.new(self.kept.value, x))
        return self.use(x, self.kept.value)


def _after_features(layer: Any, **compile_arguments: Any) -> Training:
    model = keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(1)])
    model.compile(**{"optimizer": keras.optimizers.SGD(0.1), "loss": "mse"} | compile_arguments)
    return model, data.of_arrays(data.features(), data.targets())


@wrong("exact")
def samples_counted_as_integer() -> Training:
    return _after_features(Keeping(lambda kept, x: kept + tf.shape(x)[0], dtype_kept="int32"))


@wrong("exact")
def samples_counted_as_float() -> Training:
    return _after_features(Keeping(lambda kept, x: kept + tf.cast(tf.shape(x)[0], tf.float32)))


@wrong("exact")
def sum_of_features() -> Training:
    return _after_features(Keeping(lambda kept, x: kept + tf.reduce_sum(x, axis=0), (6,)))


@wrong("exact")
def histogram_of_features() -> Training:
    """How often a feature was positive, in int64."""
    return _after_features(
        Keeping(
            lambda kept, x: kept + tf.math.count_nonzero(x > 0.0, axis=0),
            (6,),
            dtype_kept="int64",
        )
    )


@wrong("exact")
def largest_feature_so_far() -> Training:
    """The observer of quantisation-aware training."""
    return _after_features(
        Keeping(
            lambda kept, x: tf.maximum(kept, tf.reduce_max(tf.abs(x))),
            use=lambda x, kept: x / 4.0,
        )
    )


@wrong("exact")
def largest_feature_of_last_batch() -> Training:
    return _after_features(Keeping(lambda kept, x: tf.reduce_max(tf.abs(x), axis=0), (6,)))


@wrong("refused")
def smallest_feature_so_far() -> Training:
    return _after_features(Keeping(lambda kept, x: tf.minimum(kept, tf.reduce_min(x))))


@wrong("exact")
def moving_maximum() -> Training:
    """A moving average of the largest entry of each batch."""
    return _after_features(Keeping(lambda kept, x: 0.9 * kept + 0.1 * tf.reduce_max(tf.abs(x))))


@wrong("refused")
def moving_average_of_sums() -> Training:
    """The cluster sizes of a VQ-VAE: neither the mean nor the sum of what ranks have."""
    return _after_features(
        Keeping(lambda kept, x: 0.8 * kept + 0.2 * tf.reduce_sum(tf.nn.softmax(x), axis=0), (6,))
    )


@wrong("refused")
def moving_deviation() -> Training:
    return _after_features(
        Keeping(lambda kept, x: 0.8 * kept + 0.2 * tf.math.reduce_std(x, axis=0), (6,))
    )


@wrong("refused")
def moving_average_that_is_used_at_once() -> Training:
    """The centre is moved by the batch before it is subtracted."""
    return _after_features(
        Keeping(
            lambda kept, x: 0.5 * kept + 0.5 * tf.reduce_mean(x, axis=0),
            (6,),
            use=lambda x, kept: x - kept,
        )
    )


@wrong("refused")
def queue_of_features() -> Training:
    """MoCo: the newest features enter in front, the oldest leave."""
    return _after_features(Keeping(lambda kept, x: tf.concat([x, kept], axis=0)[:16], (16, 6)))


@wrong("refused")
def last_sample() -> Training:
    """Recurrent state over batches: what the last row has left."""
    return _after_features(Keeping(lambda kept, x: x[-1], (6,)))


@wrong("exact")
def memory_bank() -> Training:
    """Each sample writes its own row of a table."""

    def write(kept: Any, x: Any) -> Any:
        places = tf.cast(tf.math.floormod(tf.abs(x[:, 0]) * 1e4, 4096.0), tf.int32)
        return tf.tensor_scatter_nd_add(kept, places[:, None], x)

    return _after_features(Keeping(write, (4096, 6)))


@wrong("exact", evaluates=False)
def large_memory_of_which_rows_are_written() -> Training:
    """A step changes 7 of 50,000 rows, in places that depend on the sample."""

    class Memory(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(4)
            self.kept = self.add_weight((50_000, 4), "zeros", trainable=False, name="kept")

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs["x"])

        def train_step(self, batch: Any) -> Any:
            inputs, y = batch
            places = inputs["place"]
            before = tf.gather(self.kept.value, places)
            with tf.GradientTape() as tape:
                features = self(inputs)
                loss = tf.reduce_mean((tf.reduce_sum(features, 1, keepdims=True) - y) ** 2)
                loss += 0.1 * tf.reduce_mean((features - before) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            after = 0.5 * (before + features)
            self.kept.assign(tf.tensor_scatter_nd_update(self.kept.value, places[:, None], after))
            return {"loss": loss}

    model = Memory()
    model.compile(keras.optimizers.SGD(0.1))
    inputs = {"x": data.features(), "place": np.arange(data.NUM_SAMPLES, dtype="int32") * 1999}
    return model, data.of_arrays(inputs, data.targets())


@wrong("refused")
def own_batch_normalisation() -> Training:
    """Written by hand with the moments of the batch."""

    def normalise(x: Any, kept: Any) -> Any:
        mean, variance = tf.nn.moments(x, axes=[0])
        return (x - mean) / tf.sqrt(variance + 1e-3)

    return _after_features(
        Keeping(lambda kept, x: 0.9 * kept + 0.1 * tf.reduce_mean(x, axis=0), (6,), use=normalise)
    )


@wrong("refused")
def deviation_of_the_batch_as_feature() -> Training:
    """Progressive growing of GANs: the layer of minibatch deviations."""

    def deviation(x: Any, kept: Any) -> Any:
        spread = tf.reduce_mean(tf.math.reduce_std(x, axis=0))
        return tf.concat([x, tf.fill([tf.shape(x)[0], 1], spread)], axis=-1)

    return _after_features(Keeping(lambda kept, x: kept + 1.0, use=deviation))


@wrong("refused")
def attention_among_samples() -> Training:
    """BatchFormer: samples of a batch attend to each other."""

    def attend(x: Any, kept: Any) -> Any:
        return x + tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x)

    return _after_features(Keeping(lambda kept, x: kept + 1.0, use=attend))


@wrong("refused", evaluates=False)
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


@wrong("exact")
def gradient_that_is_the_new_value() -> Training:
    """The scale of an 8-bit layer: its gradient overwrites it, and is the largest entry seen."""

    class Scaled(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")
            self.scale.overwrite_with_gradient = True

        def call(self, x: Any) -> Any:
            @tf.custom_gradient
            def scaled(values: Any, scale: Any) -> Any:
                def gradient(upstream: Any, variables: Any = None) -> Any:
                    return upstream, tf.reduce_max(tf.abs(values))

                return values / 2.0 + 0.0 * scale, gradient

            return scaled(x, self.scale.value)

    return _after_features(Scaled())


class Accumulating(OwnStep):
    """Keeps a plain `tf.Variable`, which Keras does not count among the weights."""

    def __init__(self, inner: Any, loss_of: Any) -> None:
        super().__init__(inner, loss_of)
        self.seen = tf.Variable(0.0, trainable=False)

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        self.seen.assign_add(tf.reduce_sum(squared_errors(self, x, y)))
        return super().logs(x, y, loss) | {"seen": self.seen.read_value()}


@wrong("refused", evaluates=False)
def total_in_a_tensorflow_variable() -> Training:
    model = own_step(mean_squared_error, kind=Accumulating)
    return model, data.of_arrays(data.features(), data.targets())


@wrong("refused", evaluates=False)
def loss_scaled_by_a_tensorflow_variable() -> Training:
    """The loss is divided by a running sum, which the step moves."""

    class Scaling(Accumulating):
        def train_step(self, batch: Any) -> Any:
            x, y = batch
            self.seen.assign_add(tf.reduce_sum(squared_errors(self, x, y)))
            return super().train_step(batch)

    def scaled(model: Any, x: Any, y: Any) -> Any:
        return mean_squared_error(model, x, y) * 10.0 / (10.0 + model.seen)

    model = own_step(scaled, kind=Scaling)
    return model, data.of_arrays(data.features(), data.targets())


@wrong("exact", evaluates=False)
def gradients_collected_in_tensorflow_variables() -> Training:
    """Accumulation by hand: applied at every second step, of batches with other shares."""

    class Collecting(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.sums = [tf.Variable(tf.zeros(v.shape)) for v in inner.trainable_variables]
            self.steps = tf.Variable(0, trainable=False)

        def changed(self, gradients: list[Any]) -> list[Any]:
            self.steps.assign_add(1)
            is_last = tf.cast(self.steps % 2 == 0, tf.float32)
            totals = [kept + new for kept, new in zip(self.sums, gradients, strict=True)]
            for kept, total in zip(self.sums, totals, strict=True):
                kept.assign(total * (1.0 - is_last))
            return [total * is_last for total in totals]

    model = own_step(mean_squared_error, kind=Collecting)
    return model, data.of_arrays(data.features(), data.targets())


@right()
def steps_counted() -> Training:
    return _after_features(Keeping(lambda kept, x: kept + 1, dtype_kept="int32"))


@right()
def steps_counted_as_float() -> Training:
    return _after_features(Keeping(lambda kept, x: kept + 1.0))


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

    return _after_features(Centred())


@right()
def spectral_normalisation() -> Training:
    return _after_features(keras.layers.SpectralNormalization(keras.layers.Dense(4)))


@right()
def adapted_normalisation() -> Training:
    layer = keras.layers.Normalization()
    layer.adapt(data.features())
    return _after_features(layer)


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
