"""Detectors: anchors and matching, grids, heat maps, sets, suppression of what overlaps."""

from __future__ import annotations

import itertools
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from .case import ROWS, Training, chosen, drawn, fitted, script
from .own_step import OwnLoss


def _boxes(number: int, seed: int = 2) -> np.ndarray:
    generator = np.random.default_rng(seed)
    corner = generator.uniform(0, 0.5, (ROWS, number, 2))
    size = generator.uniform(0.2, 0.5, (ROWS, number, 2))
    return np.concatenate([corner, corner + size], -1).astype("float32")


def _overlap(a: Any, b: Any) -> Any:
    """Intersection over union of all boxes `a` (N, A, 4) with all `b` (N, B, 4)."""
    top = tf.maximum(a[..., :, None, :2], b[..., None, :, :2])
    bottom = tf.minimum(a[..., :, None, 2:], b[..., None, :, 2:])
    both = tf.reduce_prod(tf.maximum(bottom - top, 0.0), -1)

    def area(c: Any) -> Any:
        return tf.reduce_prod(c[..., 2:] - c[..., :2], -1)

    return both / (area(a)[..., :, None] + area(b)[..., None, :] - both)


def _pyramid() -> Any:
    image = keras.Input((8, 8, 2))
    low = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(image)
    high = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(low)
    low = layers.Add()([layers.Conv2D(4, 1)(low), layers.UpSampling2D(2)(high)])
    head = layers.Conv2D(7, 3, padding="same")
    levels = [layers.Reshape((-1, 7))(head(level)) for level in (low, high)]
    return keras.Model(image, layers.Concatenate(axis=1)(levels))


def _anchors() -> np.ndarray:
    found = []
    for cells in (4, 2):
        centre = (np.arange(cells) + 0.5) / cells
        x, y = np.meshgrid(centre, centre)
        centres = np.stack([x.ravel(), y.ravel()], -1)
        found.append(np.concatenate([centres - 0.6 / cells, centres + 0.6 / cells], -1))
    return np.concatenate(found).astype("float32")


class AnchorDetector(OwnLoss):
    def __init__(self) -> None:
        super().__init__()
        self.net = _pyramid()
        self.anchors = _anchors()

    def call(self, x: Any) -> Any:
        return self.net(x)

    def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
        image, target = data
        outputs = self(image)
        boxes, labels = target["boxes"], target["labels"]
        anchors = tf.tile(self.anchors[None], [tf.shape(image)[0], 1, 1])
        overlap = _overlap(anchors, boxes)
        best = tf.argmax(overlap, -1)
        quality = tf.reduce_max(overlap, -1)
        positive, ignored = quality >= 0.3, (quality >= 0.2) & (quality < 0.3)
        matched = tf.gather(boxes, best, batch_dims=1)
        kinds = tf.where(positive, tf.gather(labels, best, batch_dims=1), -1)
        hot = tf.one_hot(kinds, 3)
        focal = self.focal(hot, outputs[..., 4:])
        focal = tf.where(ignored[..., None], 0.0, focal)
        size = anchors[..., 2:] - anchors[..., :2]
        wanted = tf.concat(
            [(matched - anchors)[..., :2] / size, (matched - anchors)[..., 2:] / size], -1
        )
        error = tf.abs(wanted - outputs[..., :4])
        smooth = tf.where(error < 1, 0.5 * error**2, error - 0.5)
        smooth = tf.reduce_sum(smooth * tf.cast(positive, tf.float32)[..., None], [1, 2])
        number = tf.maximum(tf.reduce_sum(tf.cast(positive, tf.float32)), 1.0)
        loss = (tf.reduce_sum(focal) + tf.reduce_sum(smooth)) / number
        return loss, {"positives": number, "quality": tf.reduce_max(quality)}

    def focal(self, hot: Any, logits: Any) -> Any:
        p = tf.sigmoid(logits)
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(hot, logits)
        alpha = tf.where(hot == 1.0, 0.25, 0.75)
        return alpha * tf.where(hot == 1.0, 1 - p, p) ** 2 * entropy

    def predict_step(self, data: Any) -> Any:
        image = data[0] if isinstance(data, tuple) else data
        outputs = self(image)
        boxes = self.anchors[None] + 0.1 * outputs[..., :4]
        return tf.image.combined_non_max_suppression(
            boxes[:, :, None], tf.sigmoid(outputs[..., 4:]), 3, 5, score_threshold=0.1
        )


@script()
def anchors_matched_and_overlaps_suppressed() -> Training:
    model = AnchorDetector()
    model.compile(optimizer=keras.optimizers.SGD(0.01, momentum=0.9, clipnorm=10.0))
    targets = {"boxes": _boxes(3), "labels": chosen(3, 3)}
    return model, fitted(drawn(8, 8, 2), targets)


@script()
def grid_of_responsible_cells() -> Training:
    def loss(y: Any, out: Any) -> Any:
        boxes, kinds = y[..., :4], tf.cast(y[..., 4], tf.int32)
        centre = (boxes[..., :2] + boxes[..., 2:]) / 2
        cell = tf.cast(tf.floor(centre * 4), tf.int32)
        rows, number = tf.shape(y)[0], y.shape[1]
        row = tf.tile(tf.range(rows)[:, None], [1, number])
        places = tf.stack([row, cell[..., 1], cell[..., 0]], -1)
        there = tf.scatter_nd(places, tf.ones_like(boxes[..., 0]), [rows, 4, 4])
        there = tf.minimum(there, 1.0)
        given = tf.gather_nd(out, places)
        size = tf.sqrt(boxes[..., 2:] - boxes[..., :2])
        offset = centre * 4 - tf.cast(cell, tf.float32)
        error = tf.reduce_sum((tf.sigmoid(given[..., :2]) - offset) ** 2, -1)
        error += tf.reduce_sum((given[..., 2:4] - size) ** 2, -1)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(kinds, given[..., 5:])
        objectness = tf.nn.sigmoid_cross_entropy_with_logits(there, out[..., 4])
        scaled = objectness * tf.where(there > 0, 5.0, 0.5)
        return tf.reduce_sum(error + entropy, -1) + tf.reduce_sum(scaled, [1, 2])

    image = keras.Input((8, 8, 2))
    x = layers.Conv2D(6, 3, strides=2, padding="same")(image)
    x = layers.LeakyReLU()(layers.GroupNormalization(2)(x))
    model = keras.Model(image, layers.Conv2D(8, 1)(x))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss)
    y = np.concatenate([_boxes(2), chosen(3, 2, 1)], -1).astype("float32")
    return model, fitted(drawn(8, 8, 2), y)


@script()
def heat_maps_of_centres() -> Training:
    class Centres(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.body = layers.Conv2D(4, 3, padding="same", activation="relu")
            self.heat, self.size = layers.Conv2D(2, 1), layers.Conv2D(2, 1)

        def call(self, x: Any) -> Any:
            x = self.body(x)
            return self.heat(x), self.size(x)

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            image, (boxes, kinds) = data
            heat, size = self(image)
            centre = (boxes[..., :2] + boxes[..., 2:]) * 3
            grid = tf.cast(tf.stack(tf.meshgrid(tf.range(6), tf.range(6)), -1), tf.float32)
            distance = tf.reduce_sum((grid[None, None] - centre[:, :, None, None]) ** 2, -1)
            bumps = tf.exp(-distance / 2)
            hot = tf.one_hot(kinds, 2)
            truth = tf.reduce_max(bumps[..., None] * hot[:, :, None, None, :], 1)
            p = tf.clip_by_value(tf.sigmoid(heat), 1e-4, 1 - 1e-4)
            at = tf.cast(truth > 0.8, tf.float32)
            gain = at * tf.math.log(p) * (1 - p) ** 2
            gain += (1 - at) * (1 - truth) ** 4 * tf.math.log(1 - p) * p**2
            number = tf.reduce_sum(at)
            focal = -tf.math.divide_no_nan(tf.reduce_sum(gain), number)
            places = tf.cast(centre, tf.int32)
            flat = tf.reshape(size, [tf.shape(size)[0], -1, 2])
            given = tf.gather(flat, places[..., 1] * 6 + places[..., 0], axis=1, batch_dims=1)
            error = tf.reduce_mean(tf.abs(given - (boxes[..., 2:] - boxes[..., :2])))
            return focal + 0.1 * error, {"focal": focal}

        def predict_step(self, data: Any) -> Any:
            image = data[0] if isinstance(data, tuple) else data
            heat, size = self(image)
            heat = tf.sigmoid(heat)
            peaks = tf.where(heat == tf.nn.max_pool2d(heat, 3, 1, "SAME"), heat, 0.0)
            scores, places = tf.math.top_k(tf.reshape(peaks, [tf.shape(heat)[0], -1]), 3)
            flat = tf.reshape(size, [tf.shape(size)[0], -1, 2])
            return scores, places, tf.gather(flat, places // 2, batch_dims=1)

    model = Centres()
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    return model, fitted(drawn(6, 6, 2), (_boxes(3), chosen(2, 3)))


@script(amplifies=True, gathers="GatherV2 Mul")
def set_prediction_with_a_matching_in_python() -> Training:
    pairs = np.array(list(itertools.permutations(range(4), 2)))

    def matched(cost: np.ndarray) -> np.ndarray:
        """The two of four queries that are nearest to the two boxes, for each sample."""
        totals = cost[:, pairs[:, 0], 0] + cost[:, pairs[:, 1], 1]
        return pairs[np.argmin(totals, 1)].astype("int64")

    class Sets(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.queries = self.add_weight((4, 6), "random_normal", name="queries")
            self.attend, self.embed = layers.MultiHeadAttention(2, 3), layers.Dense(6)
            self.kinds, self.boxes = layers.Dense(3), layers.Dense(4, activation="sigmoid")

        def call(self, x: Any) -> Any:
            queries = tf.broadcast_to(self.queries, [tf.shape(x)[0], 4, 6])
            x = self.attend(queries, self.embed(x))
            return self.kinds(x), self.boxes(x)

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            x, (boxes, kinds) = data
            logits, given = self(x)
            p = tf.nn.softmax(logits)
            chance = tf.gather(p, kinds, axis=2, batch_dims=1)
            distance = tf.reduce_sum(tf.abs(given[:, :, None] - boxes[:, None]), -1)
            cost = distance - chance
            places = tf.numpy_function(matched, [cost], tf.int64)
            places = tf.ensure_shape(places, [None, 2])
            best = tf.gather(given, places, batch_dims=1)
            wanted = tf.one_hot(places, 4, dtype=tf.int32)
            wanted = tf.reduce_sum(wanted * (kinds[..., None] + 1), 1)
            weight = tf.where(wanted == 0, 0.1, 1.0)
            entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits)
            first = tf.reduce_sum(weight * entropy) / tf.reduce_sum(weight)
            return first + 5 * tf.reduce_mean(tf.abs(best - boxes)), {"entropy": first}

    model = Sets()
    model.compile(optimizer=keras.optimizers.AdamW(0.01, clipnorm=0.1))
    return model, fitted(drawn(5, 3), (_boxes(2), chosen(2, 2)))
