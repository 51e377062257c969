"""Files to read: JPEG images as large as those of ImageNet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

HEIGHT, WIDTH = 375, 500


def write_images(folder: Path, number: int) -> None:
    """Write smooth random pictures with some noise: noise alone would be slower to decode."""
    random = np.random.default_rng(0)
    for index in range(number):
        coarse = random.uniform(0, 255, (8, 8, 3)).astype(np.float32)
        image = tf.image.resize(coarse, (HEIGHT, WIDTH), method="bicubic").numpy()
        image += random.normal(0, 8, image.shape)
        data = tf.io.encode_jpeg(np.clip(image, 0, 255).astype(np.uint8), quality=90)
        (folder / f"{index:06d}.jpg").write_bytes(data.numpy())
