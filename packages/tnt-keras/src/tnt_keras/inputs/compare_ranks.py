"""Compare the inputs of ranks before a run: pipelines, arrays, numbers of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.calls.agree import require_same
from tnt_keras.calls.errors import DifferentInputError
from tnt_keras.calls.messages import allgather_json
from tnt_keras.inputs.arguments import EVALUATION, TRAINING, VALIDATION, Keywords
from tnt_keras.inputs.arrays import Arrays
from tnt_keras.inputs.seed import difference_of_global_seeds
from tnt_keras.process.rank import get_rank, get_size

_NOT_COMPARED = {"x", "y", "sample_weight", "callbacks", "verbose"}
_COMPARED_ROWS = 256  # of arrays: enough to notice another order, and next to nothing to read


def require_same_arguments(given: Mapping[str, Any]) -> None:
    """Compare the arguments of a call that decide about its steps, before it begins. Collective.

    Callbacks and `verbose` may differ, and so may sizes of batches where each rank has samples of
    its own. Data are compared elsewhere.
    """
    free = {name for each in (TRAINING, VALIDATION, EVALUATION) for name in _free(given, each)}
    # Which are free comes first: else an argument of one rank would have no place on another.
    compared = [name for name in given if name not in _NOT_COMPARED]
    names = sorted(compared, key=lambda name: "distribute" not in name)
    require_same(
        "the arguments of the ranks differ",
        {f"`{name}`": "of each rank" if name in free else repr(given[name]) for name in names},
        "All ranks must make the call with the same ones.",
    )


def _free(given: Mapping[str, Any], keywords: Keywords) -> list[str]:
    """Return the arguments of an input that may differ from rank to rank."""
    sizes = [keywords.batch_size, keywords.micro_batch_size, keywords.steps]
    return [] if given.get(keywords.distribute, True) else sizes


def require_same_pipeline(
    pipeline: tnt_data.Pipeline, elements: str, batch_size: int | None, keywords: Keywords
) -> None:
    """Compare what is cheap to tell of a dataset and decides on its samples. Collective."""
    description = f"of {_length(pipeline.dataset)} elements {elements}, in batches of {batch_size}"
    if pipeline.order:
        description += f", made by {pipeline.order}"
    require_same(
        "the dataset must be the same on all ranks",
        {"it": description},
        f"`{keywords.x}`: Build it alike on all ranks, with the same seeds, and leave it to "
        "Tarantella to share it. If each rank has samples of its own, say "
        f"`{keywords.distribute}=False`.",
        cause=difference_of_global_seeds,
    )


def compare_input_arrays(arrays: Arrays, verify: bool | None) -> None:
    """Compare some rows of arrays, and warn; to `verify`, compare all, and raise. Collective."""
    _compare_arrays(arrays.fingerprint(None if verify else _COMPARED_ROWS), bool(verify))


def compare_arrays_of_dataset(pipeline: tnt_data.Pipeline) -> None:
    """Compare some rows of the arrays that a dataset is made of, with a warning. Collective."""
    _compare_arrays(pipeline.fingerprint_of_arrays(_COMPARED_ROWS), is_error=False)


def _compare_arrays(own: int, is_error: bool) -> None:
    require_same(
        "ranks read different samples",
        {"the arrays": str(own).encode()},
        "So some samples are used twice and others not at all. Make them alike on all ranks, with "
        "seeds for all that is random.",
        is_error=is_error,
    )


def require_same_number_of_steps(
    dataset: tf.data.Dataset, steps: int | None, keywords: Keywords
) -> None:
    """Compare the numbers of steps of all ranks, where they are known. Collective."""
    of_ranks = allgather_json("number of steps", _num_steps(dataset, steps))
    known = {number for number in of_ranks if number}
    if len(known) > 1:
        raise DifferentInputError(
            f"Rank {get_rank()}: all ranks must have the same number of steps, but for "
            f"`{keywords.x}` ranks 0 to {get_size() - 1} have "
            f"{', '.join(str(number or '?') for number in of_ranks)}. Give all ranks equally many "
            f"batches, or limit them by `{keywords.steps}`."
        )


def _num_steps(dataset: tf.data.Dataset, steps: int | None) -> int | None:
    cardinality = int(dataset.cardinality())
    if cardinality == tf.data.INFINITE_CARDINALITY:
        return steps
    if cardinality == tf.data.UNKNOWN_CARDINALITY:
        return None
    return min(cardinality, steps) if steps else cardinality


def _length(dataset: tf.data.Dataset) -> int | str:
    cardinality = int(dataset.cardinality())
    names = {tf.data.UNKNOWN_CARDINALITY: "unknown", tf.data.INFINITE_CARDINALITY: "infinite"}
    return names.get(cardinality, cardinality)
