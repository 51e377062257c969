"""Set up logging and check the devices when the first model is distributed, not at import.

The launcher sets GPUs and threads of a rank before Python starts, whatever a script does first.
"""

from __future__ import annotations

import functools
import os

import tensorflow as tf

from tnt_keras.process.environment import Settings, is_started_by_launcher, settings
from tnt_keras.process.former_options import check_probe
from tnt_keras.process.grammar import warnings_of_unknown
from tnt_keras.process.output import logger, set_up_logging
from tnt_keras.process.rank import get_size
from tnt_keras.process.variables import ALL_NAMES


@functools.cache
def set_up_process() -> None:
    """Read the settings, set up logging and check the devices; once. Local."""
    set_up_logging(settings())
    if not is_started_by_launcher():  # the launcher has warned already
        for warning in warnings_of_unknown(os.environ, ALL_NAMES):
            logger.warning(warning)
    check_devices(settings())
    check_probe(settings().probe, "TNT_PROBE")


def check_devices(settings: Settings) -> None:
    """Make sure that TensorFlow sees a GPU if this rank is to use one. Local."""
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
