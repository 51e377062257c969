"""Pictures and clouds of points: segmentation, mixing of samples, pairs, margins, warps."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from .case import Training, chosen, drawn, fitted, script
from .own_step import OwnLoss


def _segmentation() -> Any:
    x = keras.Input((8, 8, 2))
    down = layers.Conv2D(4, 3, padding="same")(x)
    down = layers.ReLU()(layers.GroupNormalization(2)(down))
    low = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.MaxPooling2D()(down))
    low = layers.SeparableConv2D(6, 3, padding="same", dilation_rate=2)(low)
    up = layers.Conv2DTranspose(4, 3, strides=2, padding="same")(low)
    both = layers.Concatenate()([down, up])
    return keras.Model(x, layers.Conv2D(3, 1, activation="softmax")(both))


@script()
def regions_by_overlap_and_focal_losses() -> Training:
    def overlap(y: Any, p: Any) -> Any:
        hot = ops.one_hot(ops.cast(y[..., 0], "int32"), 3)
        axes = (0, 1, 2)
        true = ops.sum(hot * p, axis=axes)
        false = ops.sum((1 - hot) * p, axis=axes)
        missed = ops.sum(hot * (1 - p), axis=axes)
        tversky = (true + 1) / (true + 0.3 * false + 0.7 * missed + 1)
        dice = (2 * true + 1) / (2 * true + false + missed + 1)
        at = ops.sum(hot * p, axis=-1)
        focal = -ops.mean((1 - at) ** 2 * ops.log(at + 1e-6))
        return ops.mean((1 - tversky) ** 0.75) + 1 - ops.mean(dice) + focal

    model = _segmentation()
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=overlap,
        metrics=[keras.metrics.MeanIoU(3, sparse_y_pred=False), keras.metrics.OneHotMeanIoU(3)][:1],
    )
    return model, fitted(drawn(8, 8, 2), chosen(3, 8, 8, 1))


@script(gathers="GatherV2 TopKV2")
def regions_by_a_sorted_surrogate_of_the_overlap() -> Training:
    def lovasz(y: Any, p: Any) -> Any:
        y, p = tf.reshape(y, [-1]), tf.reshape(p, [-1, 3])
        valid = tf.where(y < 2)[:, 0] if False else tf.range(tf.shape(y)[0])
        y, p = tf.gather(tf.cast(y, tf.int32), valid), tf.gather(p, valid)
        losses = []
        for kind in range(3):
            truth = tf.cast(y == kind, tf.float32)
            errors = tf.abs(truth - p[:, kind])
            order = tf.argsort(errors, direction="DESCENDING")
            truth = tf.gather(truth, order)
            total = tf.reduce_sum(truth)
            both = total - tf.cumsum(truth)
            either = total + tf.cumsum(1 - truth)
            jaccard = 1 - both / either
            slope = tf.concat([jaccard[:1], jaccard[1:] - jaccard[:-1]], 0)
            losses.append(tf.reduce_sum(tf.gather(errors, order) * tf.stop_gradient(slope)))
        return tf.add_n(losses) / 3

    model = _segmentation()
    model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss=lovasz)
    return model, fitted(drawn(8, 8, 2), chosen(3, 8, 8, 1))


@script(gathers="GatherV2 StridedSlice")
def samples_mixed_and_patches_swapped() -> Training:
    class Mixing(keras.Model):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.generator = keras.random.SeedGenerator(3)

        def train_step(self, data: Any) -> Any:
            x, y = data
            rows = tf.shape(x)[0]
            order = keras.random.shuffle(tf.range(rows), seed=self.generator)
            share = keras.random.beta((rows, 1, 1, 1), 0.4, 0.4, seed=self.generator)
            mixed = share * x + (1 - share) * tf.gather(x, order)
            corner = keras.random.randint((rows, 2), 0, 6, seed=self.generator)
            at = tf.range(8)
            inside = (at >= corner[..., None]) & (at < corner[..., None] + 3)
            patch = (inside[:, 0, :, None] & inside[:, 1, None, :])[..., None]
            swapped = tf.where(patch, x[::-1], x)
            kept = 1 - tf.reduce_mean(tf.cast(patch, tf.float32), [1, 2])
            cut = keras.random.uniform((), seed=self.generator) < 0.5
            hot = tf.one_hot(y, 3)
            x = tf.where(cut, swapped, mixed)
            y = tf.where(
                cut,
                kept * hot + (1 - kept) * hot[::-1],
                share[..., 0, 0] * hot + (1 - share[..., 0, 0]) * tf.gather(hot, order),
            )
            return super().train_step((x, y))

        def test_step(self, data: Any) -> Any:
            x, y = data
            return super().test_step((x, tf.one_hot(y, 3)))

    x = keras.Input((8, 8, 1))
    h = layers.RandomTranslation(0.2, 0.2, seed=5)(
        layers.RandomFlip(seed=4)(layers.Rescaling(0.5)(x))
    )
    h = layers.RandomContrast(0.3, seed=6)(layers.RandomRotation(0.1, seed=8)(h))
    h = layers.GlobalMaxPooling2D()(layers.Conv2D(6, 3, activation="relu")(h))
    model = Mixing(x, layers.Dense(3)(h))
    model.compile(
        optimizer=keras.optimizers.AdamW(0.01),
        loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
        metrics=["accuracy"],
    )
    return model, fitted(drawn(8, 8, 1), chosen(3))


@script()
def points_aligned_by_a_learnt_transform() -> Training:
    class Orthogonal(keras.regularizers.Regularizer):
        def __call__(self, x: Any) -> Any:
            x = ops.reshape(x, (-1, 3, 3))
            product = ops.einsum("nij,nkj->nik", x, x)
            return 0.01 * ops.sum((product - ops.eye(3)) ** 2)

    def block(x: Any, width: int) -> Any:
        x = layers.Conv1D(width, 1)(x)
        return layers.ReLU()(layers.BatchNormalization(momentum=0.5, synchronized=True)(x))

    x = keras.Input((6, 3))
    t = layers.GlobalMaxPooling1D()(block(x, 6))
    t = layers.Dense(
        9,
        kernel_initializer="zeros",
        bias_initializer=keras.initializers.Constant(np.eye(3).ravel()),
        activity_regularizer=Orthogonal(),
    )(t)
    h = layers.Dot(axes=(2, 1))([x, layers.Reshape((3, 3))(t)])
    h = layers.GlobalMaxPooling1D()(block(h, 8))
    model = keras.Model(x, layers.Dense(3)(layers.Dropout(0.3, seed=3)(h)))
    model.compile(
        optimizer=keras.optimizers.SGD(0.02),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["sparse_categorical_accuracy"],
    )
    return model, fitted(drawn(6, 3), chosen(3))


@script()
def angles_with_margins_and_moving_centres() -> Training:
    class Angles(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.embed = layers.Dense(4)
            self.kinds = self.add_weight((4, 3), "glorot_uniform", name="kinds")
            self.centres = self.add_weight((3, 4), "random_normal", trainable=False, name="centres")
            self.ease = self.add_weight((), "zeros", trainable=False, name="ease")

        def call(self, x: Any) -> Any:
            return tf.math.l2_normalize(self.embed(x), -1)

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            x, y = data
            z = self(x)
            cosine = tf.matmul(z, tf.math.l2_normalize(self.kinds, 0))
            own = tf.gather(cosine, y, batch_dims=1)
            theta = tf.acos(tf.clip_by_value(own, -0.999, 0.999))
            margin = tf.cos(theta + 0.3)
            if training:
                self.ease.assign(0.01 * tf.reduce_mean(own) + 0.99 * self.ease)
            hard = cosine > margin[:, None]
            cosine = tf.where(hard, cosine * (self.ease + cosine), cosine)
            hot = tf.one_hot(y, 3)
            logits = 8 * (hot * margin[:, None] + (1 - hot) * cosine)
            entropy = tf.nn.softmax_cross_entropy_with_logits(hot, logits)
            centre = tf.gather(tf.convert_to_tensor(self.centres), y)
            away = z - centre
            if training:
                counts = tf.math.bincount(y, minlength=3, maxlength=3, dtype=tf.float32)
                shift = tf.math.unsorted_segment_sum(away, y, 3) / (1 + counts)[:, None]
                self.centres.assign_add(0.5 * shift)
            near = 0.1 * tf.reduce_mean(tf.reduce_sum((z - tf.stop_gradient(centre)) ** 2, -1))
            return tf.reduce_mean(entropy) + near, {"angle": tf.reduce_mean(theta)}

    model = Angles()
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    return model, fitted(drawn(6), chosen(3))


@script()
def triplets_mined_within_the_batch() -> Training:
    def semi_hard(y: Any, z: Any) -> Any:
        y = tf.reshape(tf.cast(y, tf.int32), [-1])
        square = tf.reduce_sum(z**2, -1)
        d = tf.maximum(square[:, None] - 2 * tf.matmul(z, z, transpose_b=True) + square, 0.0)
        d = tf.sqrt(d + 1e-6)
        same = y[:, None] == y
        rows = tf.shape(y)[0]
        positive = same & ~tf.eye(rows, dtype=tf.bool)
        hardest = tf.reduce_max(tf.where(positive, d, 0.0), 1)
        beyond = ~same & (d > hardest[:, None])
        large = tf.reduce_max(d)
        near = tf.reduce_min(tf.where(beyond, d, large), 1)
        any_negative = tf.reduce_max(tf.where(~same, d, 0.0), 1)
        negative = tf.where(tf.reduce_any(beyond, 1), near, any_negative)
        losses = tf.nn.relu(hardest - negative + 0.5)
        valid = tf.cast(tf.reduce_any(positive, 1) & tf.reduce_any(~same, 1), tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(losses * valid), tf.reduce_sum(valid))

    x = keras.Input((6,))
    z = layers.UnitNormalization()(layers.Dense(4)(layers.Dense(8, activation="elu")(x)))
    model = keras.Model(x, z)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=semi_hard)
    return model, fitted(drawn(6), chosen(3))


@script(gathers="Roll")
def pairs_built_from_the_batch() -> Training:
    class Pairs(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.tower = keras.Sequential(
                [
                    layers.Conv2D(3, 3, activation="tanh"),
                    layers.Flatten(),
                    layers.Dense(4, use_bias=False),
                ]
            )
            self.margin_metric = keras.metrics.AUC(num_thresholds=20, name="auc")

        def call(self, x: Any) -> Any:
            return self.tower(x)

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            x, y = data
            z = self(x)
            other, same = tf.roll(z, 1, 0), tf.cast(y == tf.roll(y, 1, 0), tf.float32)
            d = tf.sqrt(tf.reduce_sum((z - other) ** 2, -1) + 1e-6)
            losses = same * d**2 + (1 - same) * tf.maximum(1 - d, 0.0) ** 2
            self.margin_metric.update_state(same, tf.exp(-d))
            return tf.reduce_mean(losses), {"auc": self.margin_metric.result()}

    model = Pairs()
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    return model, fitted(drawn(5, 5, 1), chosen(2))


@script()
def pictures_warped_by_a_learnt_grid() -> Training:
    class Warp(layers.Layer):
        def call(self, data: Any) -> Any:
            x, theta = data
            rows, size = tf.shape(x)[0], x.shape[1]
            line = tf.linspace(-1.0, 1.0, size)
            grid = tf.stack([*tf.meshgrid(line, line), tf.ones([size, size])], 0)
            grid = tf.reshape(grid, [3, -1])
            places = tf.einsum("nij,jk->nki", tf.reshape(theta, [-1, 2, 3]), grid)
            places = (places + 1) * (size - 1) / 2
            low = tf.floor(places)
            total = 0.0
            for dx in (0, 1):
                for dy in (0, 1):
                    at = low + tf.constant([dx, dy], tf.float32)
                    weight = tf.reduce_prod(1 - tf.abs(places - at), -1)
                    at = tf.cast(tf.clip_by_value(at, 0, size - 1), tf.int32)
                    row = tf.broadcast_to(tf.range(rows)[:, None], tf.shape(at)[:2])
                    values = tf.gather_nd(x, tf.stack([row, at[..., 1], at[..., 0]], -1))
                    total += weight[..., None] * values
            return tf.reshape(total, tf.shape(x))

    x = keras.Input((5, 5, 1))
    start = keras.initializers.Constant([1.0, 0.1, 0.05, -0.1, 1.0, 0.02])
    theta = layers.Dense(6, kernel_initializer="random_normal", bias_initializer=start)(
        layers.Flatten()(x)
    )
    h = layers.Conv2D(3, 3, activation="relu")(Warp()([x, theta]))
    model = keras.Model(x, layers.Dense(3)(layers.Flatten()(h)))
    model.compile(
        optimizer=keras.optimizers.SGD(0.02),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model, fitted(drawn(5, 5, 1), chosen(3))


@script()
def capsules_that_agree() -> Training:
    class Capsules(layers.Layer):
        def build(self, shape: Any) -> None:
            self.w = self.add_weight((shape[1], 3, shape[2], 4), "glorot_uniform", name="w")

        def call(self, u: Any) -> Any:
            votes = tf.einsum("ni d,icde->nice".replace(" ", ""), u, self.w)
            logits = tf.zeros(tf.shape(votes)[:3])
            for turn in range(3):
                share = tf.nn.softmax(logits, axis=2)
                s = tf.reduce_sum(share[..., None] * votes, 1)
                square = tf.reduce_sum(s**2, -1, keepdims=True)
                v = square / (1 + square) * s / tf.sqrt(square + 1e-7)
                if turn < 2:
                    logits += tf.einsum("nice,nce->nic", votes, v)
            return tf.sqrt(tf.reduce_sum(v**2, -1) + 1e-7)

    def margins(y: Any, length: Any) -> Any:
        hot = tf.one_hot(tf.cast(tf.reshape(y, [-1]), tf.int32), 3)
        up, down = tf.maximum(0.0, 0.9 - length) ** 2, tf.maximum(0.0, length - 0.1) ** 2
        return tf.reduce_sum(hot * up + 0.5 * (1 - hot) * down, -1)

    x = keras.Input((6, 6, 1))
    h = layers.Reshape((-1, 4))(layers.Conv2D(4, 3, strides=2, activation="relu")(x))
    model = keras.Model(x, Capsules()(h))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=margins, metrics=["accuracy"])
    return model, fitted(drawn(6, 6, 1), chosen(3))
