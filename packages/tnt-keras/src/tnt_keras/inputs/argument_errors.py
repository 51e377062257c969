"""Check the arguments of an input; errors name them as the user wrote them."""

from __future__ import annotations

import contextlib
import numbers
import re
from collections.abc import Iterator
from typing import Any

import tnt_data
from tnt_keras.inputs.arguments import InputArguments


def check_input(given: InputArguments) -> None:
    """Refuse arguments that cannot be distributed or contradict each other. Local."""
    names = given.keywords
    if given.micro_batch_size is not None:
        _check_micro_batch_size(given, given.micro_batch_size)
    if given.has_micro_batches and given.distribute:
        raise ValueError(
            f"`{names.x}` yields micro-batches: it has been shared between ranks already. Give the "
            f"dataset itself, or say `{names.distribute}=False`."
        )
    if given.is_dataset or given.is_from_python:
        _check_nothing_beside(given)
    elif not given.is_from_arrays:
        raise TypeError(
            f"On several ranks, `{names.x}` must be a `tf.data.Dataset`, a "
            "`keras.utils.PyDataset`, a generator, or (a structure of) arrays or tensors. "
            f"Received: {type(given.x).__name__}. Make a dataset of it, for instance with "
            "`tf.data.Dataset.from_generator(...).batch(global_batch_size)`."
        )


def _check_micro_batch_size(given: InputArguments, size: int) -> None:
    names = given.keywords
    received = f"Received: {names.micro_batch_size}={size!r}"
    if not isinstance(size, numbers.Integral):
        raise TypeError(f"`{names.micro_batch_size}` must be an integer. {received}.")
    if size < 1:
        raise tnt_data.BatchSizeError(f"`{names.micro_batch_size}` must be at least 1. {received}.")
    if not given.distribute:
        raise ValueError(
            f"`{names.micro_batch_size}` says how a global batch is shared, but with "
            f"`{names.distribute}=False` `{names.x}` is not distributed. {received}. Leave it out, "
            "and batch each rank's own samples."
        )
    if given.is_from_python:
        raise ValueError(
            f"`{names.x}` is a `{type(given.x).__name__}`, which makes whole batches, so that "
            f"`{names.micro_batch_size}` has no meaning. {received}. Leave it out: every rank "
            "takes its part of each batch."
        )
    if given.batch_size is not None:
        raise ValueError(
            f"`{names.batch_size}` is that of the global batch and `{names.micro_batch_size}` that "
            f"of one rank: give one of them. {received}, {names.batch_size}={given.batch_size}."
        )


def _check_nothing_beside(given: InputArguments) -> None:
    """Check that arguments for arrays, such as `y`, are not given with an input of batches."""
    names = given.keywords
    kind = type(given.x).__name__ if given.is_from_python else "tf.data.Dataset"
    beside = {
        "y": given.y,
        "sample_weight": given.sample_weight,
        names.batch_size: given.batch_size,
    }
    for name, value in beside.items():
        if value is not None:
            raise ValueError(
                f"`{name}` must not be given when `{names.x}` is a `{kind}`: it yields (inputs, "
                "targets) or (inputs, targets, sample_weights), batched with the global batch "
                f"size. Received: {name}={_brief(value)}."
            )


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{type(value).__name__}"


@contextlib.contextmanager
def errors_naming(x: str, micro_batch_size: str) -> Iterator[None]:
    """Rename arguments in errors of tnt-data as the user's script calls them. Local."""
    try:
        yield
    except tnt_data.DataError as error:
        text = re.sub(r"\bmicro_batch_size\b", micro_batch_size, str(error))
        raise type(error)(f"`{x}`: {text}") from None
