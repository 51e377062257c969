"""This rank, as the environment says without asking others: number, settings, what it shows.

No other module of this package reads a value of a `TNT_*` variable. The launcher writes them;
without it the defaults hold. All packages have one grammar of values.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import logging
import os
from collections.abc import Mapping
from typing import Any

import tnt_comm
from tnt_keras.process import variables

MASTER_RANK = 0

logger = logging.getLogger("tnt_keras")


def get_rank() -> int:
    """Return the number of this process, `0 <= rank < get_size()`. Local."""
    return tnt_comm.get_rank()


def get_size() -> int:
    """Return the number of ranks; 1 for a script that was started with plain `python`. Local."""
    return tnt_comm.get_size()


def get_local_rank() -> int:
    """Return the number of this process among the ranks of its host. Local."""
    return tnt_comm.get_local_rank()


def get_local_size() -> int:
    """Return the number of ranks on this host. Local."""
    return tnt_comm.get_local_size()


def get_master_rank() -> int:
    """Return the rank that writes files and output: 0, on the launching host. Local."""
    return MASTER_RANK


def is_master_rank() -> bool:
    """Return whether this process is the master rank. Local.

    Use it to guard code that only one rank must run, such as writing your own file. Do *not* guard
    calls of a distributed model's methods: all ranks take part in them.
    """
    return get_rank() == MASTER_RANK


def get_group_master_rank(group: tnt_comm.Group) -> int:
    """Return the rank that writes what a group computes: its first member. Local.

    Args:
        group: Some ranks.

    Returns:
        Its number among all ranks.
    """
    return group.ranks[0]


def is_group_master_rank(group: tnt_comm.Group) -> bool:
    """Return whether this process is the master rank of a group. Local.

    Args:
        group: Some ranks.
    """
    return get_rank() == get_group_master_rank(group)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the environment says about this process; see the page "Environment variables"."""

    log_level: str = variables.LOG_LEVEL.default  # least level that is shown
    log_on_all_ranks: bool = False
    output_on_all_ranks: bool = False  # progress bars and summaries
    tensorboard_on_all_ranks: bool | None = None
    gpus_per_node: int | None = None  # those that ranks are to use
    num_threads: int | None = None  # of a rank, as far as stated
    # 0: off, None: measured
    fusion_threshold_bytes: int | None = 1024 * variables.FUSION_THRESHOLD_KB.default
    wire_dtype: str | None = None  # of float32 gradients while they travel
    lanes: int | None = None  # parts of every batch, None: one for each rank
    step_hashes: str | None = None  # the file for hashes of variables after each step
    moves_weights: bool = False  # each by its last bit, before the first step
    checks_steps: bool = False  # first steps, against serial ones
    explains_steps: bool = False  # show what steps exchange
    grace_s: float = variables.GRACE_S.default  # to save and leave when a scheduler asks for it


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return what an environment says, or defaults; an error names what is malformed. Local."""
    wire_dtype = variables.WIRE_DTYPE.find(environment)
    return Settings(
        log_level=variables.LOG_LEVEL.find(environment),
        log_on_all_ranks=variables.LOG_ON_ALL_DEVICES.find(environment),
        output_on_all_ranks=variables.OUTPUT_ON_ALL_DEVICES.find(environment),
        tensorboard_on_all_ranks=variables.TENSORBOARD_ON_ALL_DEVICES.find(environment),
        gpus_per_node=variables.GPUS_PER_NODE.find(environment),
        num_threads=variables.NUM_THREADS.find(environment),
        fusion_threshold_bytes=_threshold_bytes(environment),
        wire_dtype=None if wire_dtype == "none" else wire_dtype,
        lanes=variables.LANES.find(environment),
        step_hashes=variables.STEP_HASHES.find(environment),
        moves_weights=variables.MOVE_WEIGHTS.find(environment),
        checks_steps=variables.CHECK_STEPS.find(environment),
        explains_steps=variables.EXPLAIN_STEPS.find(environment),
        grace_s=variables.GRACE_S.find(environment),
    )


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


def threads_of_operations(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return in how many threads TensorFlow runs an operation, None if it chooses. Local."""
    text = environment.get("TF_NUM_INTRAOP_THREADS", "").strip(variables.BLANKS)
    return int(text) or None if text.isdecimal() else None


def has_sum_tree(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether ranks are to be combined in an order of the user's. Local."""
    return "TNT_SUM_TREE" in environment


def is_restarted(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the launcher has started the ranks of this job before. Local."""
    return environment.get("TNT_RESTART_COUNT", "0") != "0"


def set_up_logging(settings: Settings) -> None:
    """Give the loggers of this package and of tnt-data a handler on stderr and a level. Local.

    A level or handler of the user's is kept. Only the master logs more than errors, unless asked
    for.
    """
    is_open = is_master_rank() or settings.log_on_all_ranks
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter(f"[rank {get_rank()}] %(levelname)s %(name)s: %(message)s")
    )
    for one in (logger, logging.getLogger("tnt_data")):  # which logs the same on all ranks
        if one.level == logging.NOTSET:
            one.setLevel(settings.log_level if is_open else "ERROR")
        if not one.handlers:
            one.addHandler(handler)
            one.propagate = False


def is_shown() -> bool:
    """Return whether this rank shows what is the same on all ranks. Local."""
    return is_master_rank() or settings().output_on_all_ranks


def verbosity(verbose: Any) -> Any:
    """Return the `verbose` of a method of Keras on this rank. Local."""
    return verbose if is_shown() else 0


def print(*values: Any, **options: Any) -> None:
    """Print on the master rank, or on all ranks with `--output-on-all-devices`. Local.

    Args:
        *values: As for Python's `print`.
        **options: As for Python's `print`.
    """
    if is_shown():
        builtins.print(*values, **options)
