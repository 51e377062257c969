"""Check that TensorFlow sees the GPU that the launcher chose for this rank; say what it costs.

The launcher decides before Python starts which GPU a rank sees and how many threads it has, by
variables that TensorFlow itself reads. So both hold whatever a script does first.
"""

from __future__ import annotations

import tensorflow as tf

from tnt_keras.process.environment import Settings
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_size


def check_devices(settings: Settings) -> None:
    """Make sure that TensorFlow sees a GPU if this rank is to use one. Local.

    If it sees one and there are several ranks, a WARNING says how gradients travel.

    Args:
        settings: Says how many GPUs the ranks of a host share.

    Raises:
        RuntimeError: If there are to be GPUs and TensorFlow sees none.
    """
    asked = settings.gpus_per_node
    if asked == 0 or (asked is None and get_size() == 1):
        return
    sees_gpu = bool(tf.config.list_physical_devices("GPU"))
    if asked and not sees_gpu:
        raise RuntimeError(
            f"TNT_GPUS_PER_NODE={asked}, but TensorFlow sees no GPU on this host. "
            "Pass --no-gpu to compute on CPUs, or install a TensorFlow that finds the GPUs: "
            '`pip install "tensorflow[and-cuda]"`.'
        )
    if sees_gpu and get_size() > 1:
        logger.warning(
            "Gradients of GPUs pass through the memory of the host: they are copied there, summed "
            "by CPUs, and copied back. That takes time, and changes no result."
        )
