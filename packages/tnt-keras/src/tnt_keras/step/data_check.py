"""Compare before a step what data the ranks have read.

If each rank has a dataset of its own, or Python code makes the batches, ranks may have different
numbers of samples, and one may run out of data while others wait for it. Labels that `class_weight`
has no place for are told here too.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

import tnt_comm
from tnt_keras.calls.current_call import current_call, require_failure_of_all
from tnt_keras.calls.errors import of_all_ranks
from tnt_keras.calls.messages import barrier
from tnt_keras.process.rank import get_rank

NO_LABEL: Any = np.int64(np.iinfo(np.int64).min)
"""Stands for the label without weight where there is none."""

_HAS_DATA, _LABEL, _NUM_LOCAL, _NUM_GLOBAL, _FINGERPRINT = range(5)
_NAME = "data of a step"
_REMEDY = (
    "Give all ranks the same number of batches, or limit them with `steps_per_epoch` "
    "(`validation_steps` for validation data, `steps` in `evaluate` and `predict`)."
)
_OUT_OF_DATA = (
    "Ranks have different numbers of steps: some have no more data while others continue. "
    f"{_REMEDY} Ranks without data:"
)
_NO_WEIGHT = (
    "`class_weight` has weights for the labels from 0 to the largest one that it names; with a "
    "dataset, as in Keras, any other label is an error. Name a larger label, for example with "
    "weight 1, or map the labels. Ranks with such labels:"
)
_OTHER_DATA = (
    "Ranks have read different data in one step, so some samples are used twice and others not at "
    "all."
)
_OTHER_SIZES = (
    "Ranks have read batches of different sizes in one step: all must be given the same batches, "
    "of which each takes its rows. Numbers of samples:"
)
_REMEDY_FOR_DATASETS = (
    "Do all ranks build the same pipeline, with seeds for everything that is random? If not, let "
    'one rank read for all: `{call}` with `tnt_read="rank 0"`. (`verify_inputs=False` accepts '
    "differences.)"
)
_REMEDY_FOR_BATCHES = (
    "Pass `{call}` the same arguments on all ranks, or the elements of "
    "`tnt.data.distribute(dataset)`, of a dataset that all ranks build in the same way. Do all "
    "set the same seeds for everything that is random? Was a tensor computed from this rank's "
    "part of a batch? Compute it in `{call}`, or with `dataset.map`."
)
_OTHER_SHAPES = (
    "The samples of ranks have different shapes, so they cannot form a batch. Pad them to the "
    "same shape, or bucket them in the same way. Ranks that differ from the first:"
)
_CALLS_WITH_DATASETS = ("fit", "evaluate", "predict")


class DataCheck:
    """Gather a few numbers of all ranks before each step. Creation is collective.

    Methods that are given a `label_without_weight` fail on all ranks if one has any: the first
    label of this rank's samples that has no place in `class_weight`, or `NO_LABEL`.
    """

    def __init__(self) -> None:
        barrier(f"first exchange of {_NAME}")
        # Not a message of a call: a rank without data ends an epoch where others begin a step.
        self._gatherer = tnt_comm.Gatherer(_NAME)

    def sizes_of_ranks(
        self, num_local: int, fingerprint: int, label_without_weight: int
    ) -> tuple[int, ...]:
        """Return the numbers of samples of all ranks, whose samples have one shape. Collective."""
        of_ranks = self._gather_data(label_without_weight, num_local, 0, fingerprint)
        sizes, shapes = of_ranks[:, _NUM_LOCAL], of_ranks[:, _FINGERPRINT]
        _none_of((sizes > 0) & (shapes != shapes[sizes > 0][:1]), _OTHER_SHAPES)
        return tuple(sizes.tolist())

    def same_batch(
        self, num_local: int, num_global: int, fingerprint: int, label_without_weight: int
    ) -> None:
        """Make sure that all ranks have read the same global batch. Collective."""
        of_ranks = self._gather_data(label_without_weight, num_local, num_global, fingerprint)
        sizes = of_ranks[:, _NUM_GLOBAL].tolist()
        if len(set(sizes)) > 1:
            of_each = ", ".join(f"{size} on rank {rank}" for rank, size in enumerate(sizes))
            raise of_all_ranks(ValueError(f"{_OTHER_SIZES} {of_each}."))
        read = of_ranks[:, _NUM_GLOBAL:]
        _none_of(np.any(read != read[:1], axis=1), other_data())

    def end(self) -> None:
        """Tell the others that this rank has no more data; all must say so. Collective."""
        of_ranks = self._gather(0, NO_LABEL, 0, 0, 0)
        going_on = np.flatnonzero(of_ranks[:, _HAS_DATA])
        if len(going_on):
            text = (
                f"Rank {get_rank()} has no more data, but ranks {going_on.tolist()} continue: all "
                f"must have the same number of steps. {_REMEDY}"
            )
            raise of_all_ranks(ValueError(text))

    def end_of_data(self, **kinds: bool) -> keras.callbacks.Callback:
        """Return the callback for the ends of the data of a call's kinds of steps. Local."""
        return _EndOfData(self, **kinds)

    def _gather_data(self, label: int, *facts: int) -> np.ndarray[Any, Any]:
        of_ranks = self._gather(1, label, *facts)
        _none_of(of_ranks[:, _HAS_DATA] == 0, _OUT_OF_DATA)
        lack_weight = of_ranks[:, _LABEL] != NO_LABEL
        first_labels = " ".join(map(str, of_ranks[lack_weight, _LABEL].tolist()))
        _none_of(lack_weight, _NO_WEIGHT, f" The first of each: {first_labels}")
        return of_ranks

    def _gather(self, *facts: Any) -> np.ndarray[Any, Any]:
        require_failure_of_all()
        self._gatherer.start(np.array([facts], np.int64))
        return np.concatenate(self._gatherer.finish())


def other_data() -> str:
    """Return the message for ranks that have read different batches, as fits their call. Local."""
    running = current_call()
    calls = running.name.split(" > ") if running else ["fit"]
    if calls[-1] in _CALLS_WITH_DATASETS:
        remedy = _REMEDY_FOR_DATASETS.format(call=calls[0])
    else:
        remedy = _REMEDY_FOR_BATCHES.format(call=calls[-1])
    return f"{_OTHER_DATA} {remedy} Ranks that differ from rank 0:"


def _none_of(ranks: np.ndarray[Any, Any], message: str, more: str = "") -> None:
    """Raise if a condition holds on a rank, with the numbers of those on which it does."""
    numbers = np.flatnonzero(ranks).tolist()
    if numbers:
        raise of_all_ranks(ValueError(f"{message} {' '.join(map(str, numbers))}{more}"))


class _EndOfData(keras.callbacks.Callback):
    """Check that the data of all ranks end after the same step, where ranks compare their data.

    A rank that has a batch says so when its step begins, and learns whether the others have; one
    that has none, and therefore begins no step, says so here. Both are one exchange, so that
    neither rank waits for ever, and both raise unless all ranks say the same.
    """

    def __init__(self, data_check: DataCheck, **kinds: bool) -> None:
        super().__init__()
        self._data_check = data_check
        self._kinds = kinds  # "training", "testing", "predicting": whether ranks compare
        self._is_training = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Note that training steps follow. Local."""
        self._is_training = self._kinds.get("training", False)

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """End the training steps of an epoch, perhaps before its validation. Collective."""
        if self._is_training:
            self._is_training = False
            self._data_check.end()

    on_test_begin = on_epoch_end

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """End the steps of an evaluation. Collective."""
        if self._kinds.get("testing"):
            self._data_check.end()

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:
        """End the steps of a prediction. Collective."""
        if self._kinds.get("predicting"):
            self._data_check.end()
