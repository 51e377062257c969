"""Threads and GPUs of this process, set before TensorFlow starts its runtime."""

from __future__ import annotations

import tensorflow as tf

from tnt_keras.process.environment import Settings
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_local_rank

MIN_INTER_OP_THREADS = 2
"""TensorFlow threads that run whole operations; one follows backpropagation, one does the rest."""


def set_up_devices(settings: Settings) -> None:
    """Gives this rank its share of the host's cores and GPUs. Local; once, at import.

    Both thread pools of TensorFlow get `settings.num_threads` threads, so that the ranks of a host
    do not fight for its cores, and the one for whole operations at least two: a single thread
    follows backpropagation from layer to layer and leaves gradients for later that could travel
    meanwhile. With GPUs, rank r of a host sees GPU r mod n alone, n being
    `settings.gpus_per_node` or the number of GPUs present.

    Args:
        settings: Number of threads and of GPUs.

    Raises:
        RuntimeError: If fewer GPUs are present than the launcher was told.
    """
    try:
        _set_up_threads(settings.num_threads)
        _set_up_gpus(settings.gpus_per_node)
    except RuntimeError as error:
        if "initializ" not in str(error):
            raise
        logger.warning(
            "TensorFlow was already running when tarantella was imported, so threads and GPUs keep "
            "its defaults and ranks may compete for them. Import tarantella first."
        )


def _set_up_threads(num_threads: int | None) -> None:
    if num_threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
        tf.config.threading.set_inter_op_parallelism_threads(max(num_threads, MIN_INTER_OP_THREADS))


def _set_up_gpus(gpus_per_node: int | None) -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus_per_node == 0:
        tf.config.set_visible_devices([], "GPU")
        return
    if gpus_per_node is not None and len(gpus) < gpus_per_node:
        raise RuntimeError(
            f"TNT_GPUS_PER_NODE={gpus_per_node}, but TensorFlow finds {len(gpus)} GPUs on this "
            "host. Start fewer ranks, or pass --no-gpu to compute on the CPU."
        )
    if gpus:
        own = gpus[get_local_rank() % (gpus_per_node or len(gpus))]
        tf.config.set_visible_devices([own], "GPU")
        tf.config.experimental.set_memory_growth(own, True)
