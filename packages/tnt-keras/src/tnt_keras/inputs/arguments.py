"""The arguments of `fit`, `evaluate` and `predict` that describe one input, and their errors."""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

import tnt_data
from tnt_keras.inputs.arrays import is_array, num_rows, split_off_last
from tnt_keras.inputs.python_batches import makes_batches
from tnt_keras.process.rank import MASTER_RANK, get_size

_DEFAULT_BATCH_SIZE = 32  # of Keras
READ_BY_MASTER, READ_BY_ALL = READ = (f"rank {MASTER_RANK}", "all")
"""What `tnt_read` may be: the ranks that read the batches of which each takes its rows."""


@dataclasses.dataclass(frozen=True)
class Keywords:
    """What the arguments of one input are called in the user's script."""

    x: str = "x"
    batch_size: str = "batch_size"
    micro_batch_size: str = "tnt_micro_batch_size"
    distribute: str = "tnt_distribute_dataset"
    read: str = "tnt_read"
    steps: str = "steps_per_epoch"


TRAINING = Keywords()
VALIDATION = Keywords(
    x="validation_data",
    batch_size="validation_batch_size",
    micro_batch_size="tnt_validation_micro_batch_size",
    distribute="tnt_distribute_validation_dataset",
    steps="validation_steps",
)
EVALUATION = Keywords(steps="steps")
OWN_LOOP = Keywords(x="dataset", micro_batch_size="micro_batch_size", read="read")


@dataclasses.dataclass(frozen=True)
class InputArguments:
    """One input as the user gave it, for training, validation, evaluation or prediction.

    `x`, `y` and `sample_weight` are structures of arrays of shape `(samples, ...)`; or `x` alone, a
    `tf.data.Dataset`, a `keras.utils.PyDataset` or a generator. `x` is None without validation.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    batch_size: int | None = None  # global, of arrays; None: all in `steps`, or else 32
    micro_batch_size: int | None = None  # samples of each rank in a step
    distribute: bool = True  # False: each rank has samples of its own
    read: str | None = None  # by which ranks, one of `READ`; None: as the input allows
    steps: int | None = None  # of an epoch, None for all
    verify: bool | None = None  # ranks compare all; None: some of what Python code makes
    needs_equal_steps: bool = True  # not in `predict`, where no rank waits
    keywords: Keywords = TRAINING

    @property
    def may_differ(self) -> bool:
        """Whether components may have other numbers of rows, as those of graphs."""
        return self.keywords is not OWN_LOOP

    @property
    def is_dataset(self) -> bool:
        """Whether `x` is a dataset."""
        return isinstance(self.x, tf.data.Dataset)

    @property
    def has_micro_batches(self) -> bool:
        """Whether `x` is a dataset of one rank's micro-batches, made by tnt-data."""
        return self.is_dataset and isinstance(self.x.element_spec, tnt_data.MicroBatch)

    @property
    def is_from_python(self) -> bool:
        """Whether Python code makes the batches."""
        return makes_batches(self.x)

    @property
    def is_from_arrays(self) -> bool:
        """Whether the samples are in arrays."""
        leaves = keras.tree.flatten((self.x, self.y, self.sample_weight))
        return all(leaf is None or is_array(leaf) for leaf in leaves)

    @property
    def array_batch_size(self) -> int:
        """Size of the global batch, if the samples are in arrays: by default all in `steps`."""
        if self.micro_batch_size is not None:
            return self.micro_batch_size * get_size()
        if self.batch_size is None and self.steps:
            arrays = keras.tree.flatten((self.x, self.y, self.sample_weight))
            num_samples = num_rows(next(one for one in arrays if one is not None))
            if not num_samples:
                raise ZeroDivisionError(  # of this class in Keras, without these words
                    f"`{self.keywords.x}` has no samples, so {self.keywords.steps}={self.steps} "
                    f"determines no batch size. Leave out `{self.keywords.steps}`, or pass "
                    f"`{self.keywords.batch_size}`."
                )
            return -(-num_samples // self.steps)
        return self.batch_size or _DEFAULT_BATCH_SIZE


def input_of_call(
    given: Mapping[str, Any], keywords: Keywords, *, needs_equal_steps: bool = True
) -> InputArguments:
    """Take the arguments of one input out of all those of a call. Local."""
    x, y, weight = given[keywords.x], given.get("y"), given.get("sample_weight")
    if keywords is VALIDATION:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(x)
    return InputArguments(
        x,
        y,
        weight,
        batch_size=given.get(keywords.batch_size),
        micro_batch_size=given[keywords.micro_batch_size],
        distribute=given.get(keywords.distribute, True),
        read=given[keywords.read],
        steps=given.get(keywords.steps),
        verify=given.get("verify_inputs"),
        needs_equal_steps=needs_equal_steps,
        keywords=keywords,
    )


def is_left_to_keras(*inputs: InputArguments) -> bool:
    """Return whether an input, on one rank, is of a kind that only Keras can read. Local."""
    return get_size() == 1 and not all(one.is_dataset or one.is_from_arrays for one in inputs)


def complete_validation(
    training: InputArguments, validation: InputArguments, fraction: float
) -> tuple[InputArguments, InputArguments]:
    """Give arrays for validation what Keras takes from those for training. Local.

    `fraction` is `validation_split`, in (0, 1), or 0. Returns what is left for training, and
    validation.
    """
    if fraction and validation.x is None:
        if not training.is_from_arrays:
            raise ValueError(
                "`validation_split` needs arrays. With a dataset, pass `validation_data`."
            )
        names = ("x", "y", "sample_weight")
        samples = tuple(getattr(training, name) for name in names)
        training, validation = (
            dataclasses.replace(given, **dict(zip(names, part, strict=True)))
            for given, part in zip(
                (training, validation), split_off_last(samples, fraction), strict=True
            )
        )
    if validation.is_dataset or validation.is_from_python:
        # As in Keras, which has no use for a batch size here.
        return training, dataclasses.replace(validation, batch_size=None)
    if validation.batch_size is None and validation.micro_batch_size is None:
        given = training.micro_batch_size is not None
        size = training.array_batch_size if given else training.batch_size
        validation = dataclasses.replace(validation, batch_size=size)
    return training, validation


def check_input(given: InputArguments) -> None:
    """Refuse arguments that cannot be distributed or contradict each other. Local."""
    names = given.keywords
    _check_read(given)
    if given.micro_batch_size is not None:
        _check_micro_batch_size(given, given.micro_batch_size)
    if given.has_micro_batches and given.distribute:
        raise ValueError(
            f"`{names.x}` yields micro-batches: ranks share it already. Pass the dataset itself, "
            f"or `{names.distribute}=False`."
        )
    if given.is_dataset or given.is_from_python:
        _check_nothing_beside(given)
    elif not given.is_from_arrays:
        raise TypeError(
            f"On several ranks, `{names.x}` must be a `tf.data.Dataset`, a "
            "`keras.utils.PyDataset`, a generator, a `DataLoader` of torch or grain, a dataset "
            "of grain, or (a structure of) arrays or tensors. Received: "
            f"{type(given.x).__name__}. Create a dataset from it, for example with "
            "`tf.data.Dataset.from_generator(...).batch(global_batch_size)`."
        )


def _check_read(given: InputArguments) -> None:
    if given.read not in (None, *READ):
        words = " or ".join(f'"{word}"' for word in READ)
        name = given.keywords.read
        raise ValueError(f"`{name}` must be {words}. Received: {name}={given.read!r}.")
    if given.read == READ_BY_MASTER and not given.distribute and given.keywords is not VALIDATION:
        raise ValueError(
            f'`tnt_read="{READ_BY_MASTER}"` lets one rank read batches that all share, but with '
            f"`{given.keywords.distribute}=False` each rank reads its own samples: pass only one "
            "of the two."
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
            f"`{names.x}` is a `{type(given.x).__name__}`, which makes whole batches, so "
            f"`{names.micro_batch_size}` has no meaning. {received}. Leave it out: every rank "
            "takes its part of each batch."
        )
    if given.batch_size is not None:
        raise ValueError(
            f"`{names.batch_size}` is that of the global batch and `{names.micro_batch_size}` "
            f"that of one rank: pass only one of the two. {received}, "
            f"{names.batch_size}={given.batch_size}."
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
            text = repr(value) if len(repr(value)) <= 80 else type(value).__name__
            raise ValueError(
                f"`{name}` must not be given when `{names.x}` is a `{kind}`: it yields (inputs, "
                "targets) or (inputs, targets, sample_weights), batched with the global batch "
                f"size. Received: {name}={text}."
            )


@contextlib.contextmanager
def errors_naming(x: str, micro_batch_size: str) -> Iterator[None]:
    """Rename arguments in errors of tnt-data as the user's script calls them. Local."""
    try:
        yield
    except tnt_data.DataError as error:
        text = re.sub(r"\bmicro_batch_size\b", micro_batch_size, str(error))
        raise type(error)(f"`{x}`: {text}") from None
