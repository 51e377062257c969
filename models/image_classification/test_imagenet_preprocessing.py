"""Pictures are cut, mirrored and scaled as the original did, by seeds of their own."""

import numpy as np
import tensorflow as tf

from models.image_classification.preprocessing import (
    CHANNEL_MEANS,
    evaluation_image,
    normalized,
    seed_of_sample,
    training_image,
)

NO_BOXES = np.zeros((1, 0, 4), np.float32)


def photograph():
    from sklearn import datasets

    return datasets.load_sample_image("flower.jpg")


def encoded():
    return tf.io.encode_jpeg(photograph(), quality=100)


def test_evaluation_takes_the_middle_at_256_of_224_pixels():
    whole = tf.image.decode_jpeg(encoded())
    height, width = 256, round(256 * 640 / 427)
    resized = tf.image.resize(whole, [height, width]).numpy()
    left = (width - 224) // 2
    expected = resized[16:240, left : left + 224]
    np.testing.assert_array_equal(evaluation_image(encoded(), 224).numpy(), expected)


def test_training_images_differ_by_their_seeds_only():
    images = [
        training_image(encoded(), NO_BOXES, 32, tf.constant(seed)).numpy()
        for seed in ([1, 2], [1, 2], [2, 2])
    ]
    np.testing.assert_array_equal(images[0], images[1])
    assert not np.array_equal(images[0], images[2])
    assert images[0].shape == (32, 32, 3)


def test_half_of_the_training_images_are_mirrored_and_parts_have_all_sizes():
    ramp = np.broadcast_to(np.linspace(0, 255, 200)[None, :, None], (200, 200, 3)).astype(np.uint8)
    jpeg = tf.io.encode_jpeg(ramp, quality=100)
    slopes = []
    for seed in range(60):
        row = training_image(jpeg, NO_BOXES, 16, tf.constant([seed, 0])).numpy()[8, :, 0]
        slopes.append((row[-1] - row[0]) / 255)
    mirrored = np.mean(np.array(slopes) < 0)
    assert 0.3 < mirrored < 0.7
    shares = np.abs(slopes)  # of the width that is seen
    assert shares.min() < 0.45
    assert shares.max() > 0.8


def test_means_of_channels_are_subtracted_and_nothing_is_divided():
    image = np.full((2, 2, 3), 100, np.float32)
    expected = np.broadcast_to(100 - np.array(CHANNEL_MEANS, np.float32), (2, 2, 3))
    np.testing.assert_allclose(normalized(image, tf.float32), expected)
    assert normalized(image, tf.bfloat16).dtype == tf.bfloat16


def test_every_position_sample_and_run_has_its_own_seed():
    seeds = {
        tuple(seed_of_sample(tf.constant(p, tf.int64), tf.constant(n, tf.int64), s).numpy())
        for p in range(3)
        for n in range(3)
        for s in range(3)
    }
    assert len(seeds) == 27
