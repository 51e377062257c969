"""Compare the inputs of ranks before a run: pipelines, arrays, numbers of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.calls.agree import require_same
from tnt_keras.calls.errors import of_all_ranks
from tnt_keras.calls.messages import allgather_json
from tnt_keras.inputs.arguments import (
    EVALUATION,
    TRAINING,
    VALIDATION,
    InputArguments,
    Keywords,
)
from tnt_keras.inputs.arrays import Arrays, difference_of_global_seeds, digest_of
from tnt_keras.process.rank import get_rank, get_size

_NOT_COMPARED = {"x", "y", "sample_weight", "callbacks", "verbose"}
_COMPARED_ROWS = 256  # of arrays: enough to notice another order, and next to nothing to read
_ROWS_OF_BATCH, _NUMBERS_OF_ROW = 8, 1024  # of each step, in microseconds
_USED_TWICE = "some samples would be used twice and others not at all"
_SEED_REMEDY = (
    "If random numbers determine them, set the same seed on all ranks first: "
    "`keras.utils.set_random_seed(seed)`."
)


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
        "All ranks must make the call with the same arguments.",
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
        f"`{keywords.x}`: Build it in the same way on all ranks, with the same seeds; Tarantella "
        f"shares it. If each rank has its own samples, pass `{keywords.distribute}=False`.",
        cause=difference_of_global_seeds,
    )


def require_same_input_arrays(arrays: Arrays, given: InputArguments) -> None:
    """Compare some rows of arrays, with `verify_inputs` all, unless that is False. Collective."""
    if given.verify is not False:
        _require_same_arrays(arrays.digests(None if given.verify else _COMPARED_ROWS), given)


def require_same_arrays_of_dataset(pipeline: tnt_data.Pipeline, given: InputArguments) -> None:
    """Compare some rows of the arrays of which a dataset is made, as those of `fit`. Collective."""
    if given.verify is not False:
        digest = str(pipeline.fingerprint_of_arrays(_COMPARED_ROWS)).encode()
        _require_same_arrays([digest], given)


def _require_same_arrays(digests: Sequence[bytes], given: InputArguments) -> None:
    x = given.keywords.x
    names = ("x", "y", "sample_weight") if x == "x" else [f"{x}[{i}]" for i in range(3)]
    if len(digests) == 1:
        names = [x]
    require_same(
        _USED_TWICE,
        {f"`{name}`: the arrays": digest for name, digest in zip(names, digests, strict=False)},
        "If each rank was given a part, such as `x[rank::size]`, give all ranks all samples, or "
        f"pass `{given.keywords.distribute}=False`. {_SEED_REMEDY} (`verify_inputs=False` accepts "
        "differences.)",
    )


def require_same_batch(**components: Any) -> None:
    """Compare some numbers of a batch that all ranks are given whole, by its names. Collective."""
    require_same(
        _USED_TWICE,
        {
            f"the contents of `{name}`": digest_of(each, _ROWS_OF_BATCH, _NUMBERS_OF_ROW)
            for name, each in components.items()
        },
        "If each rank was given a part, such as `x[rank::size]`, give all ranks the whole batch; "
        f"each computes some of its rows. {_SEED_REMEDY}",
    )


def require_same_number_of_steps(
    dataset: tf.data.Dataset, steps: int | None, keywords: Keywords
) -> None:
    """Compare the numbers of steps of all ranks, where they are known. Collective."""
    of_ranks = allgather_json("number of steps", _num_steps(dataset, steps))
    known = {number for number in of_ranks if number}
    if len(known) > 1:
        text = (
            f"Rank {get_rank()}: all ranks must have the same number of steps, but for "
            f"`{keywords.x}` ranks 0 to {get_size() - 1} have "
            f"{', '.join(str(number or '?') for number in of_ranks)}. Give all ranks the same "
            f"number of batches, or limit them with `{keywords.steps}`."
        )
        raise of_all_ranks(ValueError(text))


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
