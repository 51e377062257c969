"""The names of all variables of the project, so that a misspelt one is noticed without launcher."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from tnt_keras.process.log import logger

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
