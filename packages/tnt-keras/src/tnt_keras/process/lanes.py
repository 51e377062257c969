"""Lanes: the parts into which all ranks together cut every batch, whatever their number.

Lane v of V has the rows v, v + V, v + 2V, ... of every batch, and is computed by itself. Rank r of
n has V / n neighbouring lanes. It combines what they give as one branch of the tree in which
tnt-comm combines ranks, so that sums are formed in the order of V, and nothing depends on n.
Without lanes given, each rank is one.

The number holds for the whole process: threads, seeds and the parts of datasets depend on it.
"""

from __future__ import annotations

import os
from typing import Any

import keras
import tensorflow as tf

import tnt_data
from tnt_keras.process.host_cores import cores_of_job, cores_of_process
from tnt_keras.process.rank import (
    get_local_size,
    get_rank,
    get_size,
    has_sum_tree,
    logger,
    settings,
    threads_of_operations,
)

SEED = 42
"""Of all generators, where lanes are given and the script sets no seed."""

_SEED_OF_NONE = 87654321  # what TensorFlow takes for its own where a script sets none

_given: int | None = None
_is_in_use = False  # batches are cut already


def valid_sizes(lanes: int) -> list[int]:
    """Return the numbers of ranks on which lanes can be, ascending. Pure.

    The lanes of a rank are a branch of the tree of all, which combines as many neighbours as the
    smallest prime factor first: of 6 lanes a rank can have 1, 2 or 6, not 3.
    """
    sizes, rest, factor = [lanes], lanes, 2
    while rest > 1:
        if factor * factor > rest:
            factor = rest
        if rest % factor:
            factor += 1
        else:
            rest //= factor
            sizes.append(rest)
    return sizes[::-1]


def given_lanes() -> int | None:
    """Return the number of lanes, None if each rank is one because none was given. Local."""
    return settings().lanes if _given is None else _given


def num_lanes() -> int:
    """Return the number of lanes of a batch; it is settled from the first call on. Local."""
    global _is_in_use
    _is_in_use = True
    return given_lanes() or get_size()


def row_split() -> tnt_data.RowSplit:
    """Return which rows of every batch this rank has. Local."""
    return tnt_data.RowSplit(get_rank(), get_size(), num_lanes())


def lanes_at_once() -> int:
    """Return how many lanes the cores of this rank hold, with the threads that each has. Local."""
    cores = min(cores_of_job(os.environ) // get_local_size(), cores_of_process())
    return max(1, cores // (threads_of_operations() or max(1, cores)))


def is_partitioned() -> bool:
    """Return whether steps are partitioned: there are several ranks, or several lanes. Local."""
    return get_size() > 1 or (given_lanes() or 1) > 1


def use_lanes(lanes: Any) -> None:
    """Cut all batches into so many lanes from now on. Local.

    A ValueError says that this number of ranks cannot share them, or that the process has another
    number; a RuntimeError that batches were cut already, into another number of parts.
    """
    global _given
    if isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 1:
        raise ValueError(f"`lanes` must be an integer of at least 1. Received: lanes={lanes!r}.")
    before = given_lanes()
    if before not in (None, lanes):
        raise ValueError(
            f"All models and functions of a process have one number of lanes. Received: "
            f"lanes={lanes}, after {before} from --lanes, TNT_LANES or another model. Give one "
            f"number everywhere, or give it once, with --lanes."
        )
    if before is None and _is_in_use and lanes != get_size():
        raise RuntimeError(
            f"lanes={lanes} comes too late: data or steps were already split between "
            f"{get_size()} ranks. Pass `lanes` to the first `tnt.Model` or `tnt.function`, or "
            f"start with `tarantella --lanes {lanes}`."
        )
    _check_lanes(lanes)
    if before is None:
        _seed_what_is_not()
        _given = lanes
        describe_lanes()


def set_up_lanes() -> None:
    """Set what lanes of the environment need, before the script uses TensorFlow. Local."""
    if settings().lanes is not None:
        tf.config.experimental.enable_op_determinism()
        if not is_seeded():
            keras.utils.set_random_seed(SEED)


def describe_lanes() -> None:
    """Check the lanes of this process, and log what goes with them. Local."""
    lanes = given_lanes()
    if lanes is None:
        return
    _check_lanes(lanes)
    tf.config.experimental.enable_op_determinism()
    threads = threads_of_operations() or os.cpu_count() or 1
    needed = max(1, cores_of_job(os.environ) // lanes)
    if settings().lanes is None and threads != needed:  # else they were set by lanes
        logger.warning(
            "TensorFlow computes each operation in %d threads, but %d lanes need %d on this host: "
            "results may have other bits on other numbers of ranks, which have other numbers of "
            "threads. Start with `tarantella --lanes %d`, or set TNT_LANES=%d before Python "
            "starts. [lanes-threads]",
            *(threads, lanes, needed, lanes, lanes),
        )
    logger.info(
        "%d lanes, %d on each rank: the same bits on %s ranks. For that: %d threads for each "
        "operation, deterministic operations, seed %d of Python, NumPy, TensorFlow and Keras until "
        "the script sets others, subnormal numbers flushed to zero in operations and kept in sums "
        "over lanes.",
        *(lanes, lanes // get_size(), _listed(valid_sizes(lanes)), threads, SEED),
    )


def warn_of_xla() -> None:
    """Warn that XLA does not compile lanes. Local."""
    logger.warning(
        "jit_compile=True is ignored with lanes: how XLA rounds depends on how many lanes a rank "
        "has. Remove jit_compile=True, or the lanes. [jit-ignored]"
    )


def _check_lanes(lanes: int) -> None:
    sizes = valid_sizes(lanes)
    if get_size() not in sizes:
        raise ValueError(
            f"{lanes} lanes can be on {_listed(sizes)} ranks, not on {get_size()}: a rank has "
            "neighbouring lanes that are summed before all others. Start one of these numbers of "
            "ranks, or choose another number of lanes."
        )
    if settings().wire_dtype is not None:
        raise ValueError(
            f"With lanes gradients travel as they are, since how many are rounded would depend on "
            f"the number of ranks. Received: lanes={lanes} and wire dtype {settings().wire_dtype}. "
            "Remove --wire-dtype, or the lanes."
        )
    if has_sum_tree():
        raise ValueError(
            f"The order of sums is that of {lanes} lanes, so TNT_SUM_TREE must not be set. Unset "
            "it."
        )


def is_seeded() -> bool:
    """Return whether the script has given TensorFlow a seed, as Keras' function does too. Local."""
    seed, _ = tf.compat.v1.get_seed(0)
    return bool(seed != _SEED_OF_NONE)


def _seed_what_is_not() -> None:
    if is_seeded():
        return
    logger.warning(
        "`lanes` is given to a model, but no seed was set before the model was made: another run "
        "begins with other weights. Call `keras.utils.set_random_seed(...)` at the top of the "
        "script, or start with `tarantella --lanes`. [lanes-without-seed]"
    )
    keras.utils.set_random_seed(SEED)


def _listed(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last
