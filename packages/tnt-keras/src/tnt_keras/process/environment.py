"""Read the variables of the environment; no other module of this package reads any value.

The launcher writes them, or the user; else the defaults hold. All packages have one grammar of
values.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping

from tnt_keras.process import variables


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the environment says about this process; see the page "Environment variables"."""

    log_level: str = variables.LOG_LEVEL.default  # least level that is shown
    log_on_all_ranks: bool = False
    output_on_all_ranks: bool = False  # progress bars and summaries
    tensorboard_on_all_ranks: bool | None = None
    gpus_per_node: int | None = None  # those that ranks are to use
    # 0: off, None: measured
    fusion_threshold_bytes: int | None = 1024 * variables.FUSION_THRESHOLD_KB.default
    wire_dtype: str | None = None  # of float32 gradients while they travel
    probe: str | None = None  # one of the words of `PROBE`, without effect
    checks_steps: bool = False  # first steps, against serial ones
    explains_steps: bool = False  # show what steps exchange


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return what an environment says, or defaults; an error names what is malformed. Local."""
    wire_dtype = variables.WIRE_DTYPE.find(environment)
    return Settings(
        log_level=variables.LOG_LEVEL.find(environment),
        log_on_all_ranks=variables.LOG_ON_ALL_DEVICES.find(environment),
        output_on_all_ranks=variables.OUTPUT_ON_ALL_DEVICES.find(environment),
        tensorboard_on_all_ranks=variables.TENSORBOARD_ON_ALL_DEVICES.find(environment),
        gpus_per_node=variables.GPUS_PER_NODE.find(environment),
        fusion_threshold_bytes=_threshold_bytes(environment),
        wire_dtype=None if wire_dtype == "none" else wire_dtype,
        probe=variables.PROBE.find(environment),
        checks_steps=variables.CHECK_STEPS.find(environment),
        explains_steps=variables.EXPLAIN_STEPS.find(environment),
    )


def devices_of_a_rank(environment: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return how many GPUs of its host ranks are to use, and threads, as far as stated. Local."""
    return variables.GPUS_PER_NODE.find(environment), variables.NUM_THREADS.find(environment)


def threads_of_operations(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return in how many threads TensorFlow runs an operation, None if it chooses. Local."""
    text = environment.get("TF_NUM_INTRAOP_THREADS", "").strip(variables.BLANKS)
    return int(text) or None if text.isdecimal() else None


@functools.cache
def settings() -> Settings:
    """Return the settings of this process, read at the first call. Local."""
    return read_settings()


def _threshold_bytes(environment: Mapping[str, str]) -> int | None:
    """Return the threshold, under either of its two names; None if it is to be measured."""
    own = variables.FUSION_THRESHOLD_KB.find(environment)
    original = variables.FUSION_THRESHOLD.find(environment)
    if original is not None and variables.FUSION_THRESHOLD_KB.name not in environment:
        own = original
    if original not in (None, own):
        raise ValueError(
            "TNT_FUSION_THRESHOLD_KB and TNT_FUSION_THRESHOLD are two names of one setting. "
            f"Received: {own} and {original}. Set one of them."
        )
    return None if own == "auto" else 1024 * own
