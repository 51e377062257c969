"""Set up logging and check the devices when the first model is distributed, not at import.

The launcher sets GPUs and threads of a rank before Python starts, whatever a script does first.
"""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Iterable

import tensorflow as tf

from tnt_keras.process.environment import Settings, is_started_by_launcher, settings
from tnt_keras.process.former_options import check_probe
from tnt_keras.process.output import logger, set_up_logging
from tnt_keras.process.rank import get_size


@functools.cache
def set_up_process() -> None:
    """Read the settings, set up logging and check the devices; once. Local."""
    set_up_logging(settings())
    if not is_started_by_launcher():  # the launcher has warned already
        warn_of_unknown_names(os.environ)
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


PREFIX = "TNT_"
KNOWN_NAMES = (
    *("TNT_RANK", "TNT_SIZE", "TNT_LOCAL_RANK", "TNT_LOCAL_SIZE", "TNT_NODE_RANK", "TNT_NUM_NODES"),
    *("TNT_JOB_ID", "TNT_RENDEZVOUS", "TNT_JOB_SECRET", "TNT_TRANSPORT", "TNT_INTERFACE"),
    *("TNT_TIMEOUT_S", "TNT_STALL_S", "TNT_STALL_REPORT_S", "TNT_ALLREDUCE_ALGORITHM"),
    *("TNT_GPI2_LIBRARY", "TNT_GPI2_PORT", "TNT_UCX_LIBRARY", "TNT_UCX_RDMA"),
    *("TNT_FUSION_THRESHOLD_KB", "TNT_FUSION_THRESHOLD", "TNT_WIRE_DTYPE"),
    *("TNT_CHECK_STEPS", "TNT_EXPLAIN_STEPS", "TNT_PROBE", "TNT_TIMELINE"),
    *("TNT_LOG_LEVEL", "TNT_LOG_ON_ALL_DEVICES", "TNT_OUTPUT_ON_ALL_DEVICES"),
    *("TNT_TENSORBOARD_ON_ALL_DEVICES", "TNT_GPUS_PER_NODE", "TNT_NUM_THREADS"),
)
NAMES_OF_TUTORIALS = ("TNT_MODELS_PATH", "TNT_DATASETS_PATH")
"""Variables that the original's tutorials let users set for their own command lines."""


def warn_of_unknown_names(names: Iterable[str]) -> None:
    """Warn of each `TNT_*` name that nothing reads, with a known name that resembles it. Local."""
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in (*KNOWN_NAMES, *NAMES_OF_TUTORIALS):
            logger.warning(
                "%s is not a variable of Tarantella and has no effect on it.%s",
                name,
                _suggestion(name),
            )


def _suggestion(name: str) -> str:
    """Name the known variable that resembles `name`, if one does, as the launcher does."""
    # All names resemble each other by their prefix, so it is left out of the comparison.
    known = [known.removeprefix(PREFIX) for known in KNOWN_NAMES]
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=0.6)
    return f" Did you mean {PREFIX}{nearest[0]}?" if nearest else ""
