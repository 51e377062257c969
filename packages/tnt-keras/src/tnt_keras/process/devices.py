"""Check that TensorFlow sees the GPU that the launcher chose for this rank.

The launcher decides before Python starts which GPU a rank sees and how many threads it has, by
variables that TensorFlow itself reads. So both hold whatever a script does first.
"""

from __future__ import annotations

import tensorflow as tf

from tnt_keras.process.environment import Settings


def check_devices(settings: Settings) -> None:
    """Make sure that TensorFlow sees a GPU if this rank is to use one. Local.

    Args:
        settings: Says how many GPUs the ranks of a host share.

    Raises:
        RuntimeError: If there are to be GPUs and TensorFlow sees none.
    """
    if settings.gpus_per_node and not tf.config.list_physical_devices("GPU"):
        raise RuntimeError(
            f"TNT_GPUS_PER_NODE={settings.gpus_per_node}, but TensorFlow sees no GPU on this host. "
            "Pass --no-gpu to compute on CPUs, or install a TensorFlow that finds the GPUs: "
            '`pip install "tensorflow[and-cuda]"`.'
        )
