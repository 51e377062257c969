"""From the bytes of a JPEG to the input of a network, as in the original Tarantella.

Training: a random part of the picture, with a share of 5 % to 100 % and sides of 3 : 4 to 4 : 3,
perhaps mirrored, stretched to the size of the network. Evaluation: the middle of the picture.

All that is random is a function of a seed that belongs to the sample, so neither the number of
ranks nor that of threads changes it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

CHANNEL_MEANS = (123.68, 116.78, 103.94)
"""Red, green and blue over ImageNet, subtracted from pixels of 0 to 255."""
MIN_OBJECT_COVERED = 0.1
ASPECT_RATIOS = (0.75, 1.33)
AREAS = (0.05, 1.0)
MAX_ATTEMPTS = 100
SHORT_SIDE = 256 / 224
"""Shorter side of a picture before its middle is cut out, as a multiple of the network's."""


def training_image(
    encoded: tf.Tensor, boxes: tf.Tensor, image_size: int, seed: tf.Tensor
) -> tf.Tensor:
    """Return a random part of a picture (image_size, image_size, 3), float32 of 0 to 255. Pure.

    Args:
        encoded: JPEG, a scalar of bytes.
        boxes: Objects (1, n, 4), each as ymin, xmin, ymax, xmax from 0 to 1; n may be 0.
        image_size: Side of the result, in pixels.
        seed: Two integers, which belong to this sample in this epoch.
    """
    box_seed, flip_seed = tf.unstack(tf.random.split(seed, 2))
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(encoded),
        bounding_boxes=boxes,
        seed=box_seed,
        min_object_covered=MIN_OBJECT_COVERED,
        aspect_ratio_range=ASPECT_RATIOS,
        area_range=AREAS,
        max_attempts=MAX_ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], size[:2]], axis=0)
    image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
    image = tf.image.stateless_random_flip_left_right(image, flip_seed)
    image = tf.image.resize(image, [image_size, image_size], "bilinear")
    return tf.ensure_shape(image, [image_size, image_size, 3])


def evaluation_image(encoded: tf.Tensor, image_size: int) -> tf.Tensor:
    """Return the middle of a picture (image_size, image_size, 3), float32 of 0 to 255. Pure.

    The shorter side becomes 256 pixels for a network of 224, and in proportion for others.

    Args:
        encoded: JPEG, a scalar of bytes.
        image_size: Side of the result, in pixels.
    """
    image = tf.image.decode_jpeg(encoded, channels=3)
    sides = tf.cast(tf.shape(image)[:2], tf.float32)
    scale = round(image_size * SHORT_SIDE) / tf.reduce_min(sides)
    image = tf.image.resize(image, tf.cast(tf.round(sides * scale), tf.int32), "bilinear")
    top, left = tf.unstack((tf.shape(image)[:2] - image_size) // 2)
    image = image[top : top + image_size, left : left + image_size]
    return tf.ensure_shape(image, [image_size, image_size, 3])


def normalized(image: tf.Tensor, dtype: Any) -> tf.Tensor:
    """Return an image without the means of its channels, in the type of the network. Pure.

    Args:
        image: (..., 3), float32 of 0 to 255.
        dtype: Of the result.
    """
    return tf.cast(image - tf.constant(CHANNEL_MEANS), dtype)


def seed_of_sample(position: tf.Tensor, number: tf.Tensor, seed: int) -> tf.Tensor:
    """Return two integers for what is random in one sample. Pure.

    Shuffling gives the sample another position in each epoch, and so another seed.

    Args:
        position: Of the sample in this epoch, of all ranks, int64.
        number: Of the sample in the data set, int64.
        seed: Of the training.
    """
    return tf.random.fold_in(tf.stack([position, number]), seed)
