"""What a run of a step has computed: gradients, changes of variables, logs, outputs."""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

NUM_SAMPLED = 4096
"""Entries of a tensor that are compared; enough to tell rules apart, little to keep.

Besides them, as many of those that are not zero, if these are few: of a large memory in which a
step writes some rows, few entries at random would be in one of them.
"""


class Kind(enum.Enum):
    """What a value is, in the words of messages."""

    GRADIENT = "gradient"
    METRIC = "metric"
    VARIABLE = "variable"
    LOG = "log"
    RESULT = "result"
    LOSS = "loss"
    ADDITIONAL_LOSS = "add_loss"
    OUTPUT = "output"
    ATTRIBUTE = "attribute"


OF_EACH_RANK = frozenset({Kind.RESULT, Kind.ATTRIBUTE})
"""Kinds that nothing combines: each rank must have the serial value, with samples or without."""


@dataclasses.dataclass(frozen=True)
class Quantity:
    """Names one value of a step, the same on all ranks and in all runs.

    Attributes:
        kind: What it is.
        key: Distinguishes those of one kind: a `GradientKey`, the id of a variable, the path of a
            log, an object's id and the name of its attribute, or a number. Can be hashed.
        name: For messages.
        is_new_value: Whether it is a gradient that the variable takes as its new value.
    """

    kind: Kind
    key: Any
    name: str = dataclasses.field(compare=False)
    is_new_value: bool = dataclasses.field(default=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Observed:
    """One value of one run.

    Attributes:
        entries: Sampled entries; of a variable those of its move, after - before; of a prediction
            all, in its shape.
        scale: Largest absolute entry of the whole value, or move.
        after: Of a variable, the sampled entries after the step; of a gradient those of the loss
            as it was differentiated; else as `entries`.
        magnitude: Of a variable, the largest absolute entry after the step; else 0.
        former_magnitude: Of a variable, that before the step; else 0.
        indices: Of a sparse gradient, the indices of those of its slices that are not zero; else
            None.
        places: Where the entries lie in the flat tensor, if they were sampled.
        size: Of that tensor.
        limit: Of integers, the size from which on their sums wrap around.
    """

    entries: Array
    scale: float
    after: Array
    magnitude: float = 0.0
    former_magnitude: float = 0.0
    indices: npt.NDArray[np.int64] | None = None
    places: npt.NDArray[np.int64] | None = None
    size: int = 0
    limit: float = np.inf

    @classmethod
    def of(cls, value: Any, like: Observed | None = None) -> Observed:
        """Return what is kept of a dense value. Pure.

        Args:
            value: A tensor or number.
            like: Of another run, whose places are taken.
        """
        array = _flat(value)
        places = _places(array, like)
        entries = array[places].astype(np.float64)
        return cls(entries, _largest(array), entries, places=places, size=array.size)

    @classmethod
    def of_output(cls, value: Any) -> Observed:
        """Return what is kept of a prediction: all of it. Pure.

        Args:
            value: Tensor of shape `(rows, ...)`.
        """
        array = np.asarray(value)
        entries = array.astype(np.float64)
        return cls(entries, _largest(array), entries)

    @classmethod
    def of_move(cls, before: Any, after: Any, like: Observed | None = None) -> Observed:
        """Return what is kept of a variable that a step has changed. Pure.

        Args:
            before: Its value before the step. What is infinite there, such as a smallest value
                so far, counts as zero.
            after: Its value afterwards.
            like: As for `of`.
        """
        first, last = _flat(before), _flat(after)
        if not np.isfinite(first).all():
            first = np.where(np.isfinite(first), first, np.zeros_like(first))
        with np.errstate(invalid="ignore", over="ignore"):  # infinite before and after
            moves = _subtractable(last) - _subtractable(first)
            places = _places(moves, like)
            entries = last[places].astype(np.float64)
            move = entries - first[places].astype(np.float64)
        sizes = _largest(last), _largest(first)
        limit = float(np.iinfo(last.dtype).max) if last.dtype.kind in "iu" else np.inf
        return cls(
            move, _largest(moves), entries, *sizes, places=places, size=last.size, limit=limit
        )

    @classmethod
    def of_slices(cls, slices: Any, rows: npt.NDArray[np.int64]) -> Observed:
        """Return what is kept of a sparse gradient: the sums of slices with one index. Pure.

        Args:
            slices: A `tf.IndexedSlices`.
            rows: The indices of which sums are kept, sorted, each once.
        """
        indices = np.asarray(slices.indices, np.int64)
        values = np.asarray(slices.values).astype(np.float64)
        values = values.reshape(len(indices), -1)
        place = np.searchsorted(rows, indices)
        known = (place < len(rows)) & (rows[np.minimum(place, len(rows) - 1)] == indices)
        sums = np.zeros((len(rows), values.shape[1]))
        np.add.at(sums, place[known], values[known])
        flat = sums.reshape(-1)
        entries = flat[_places_by_size(flat.size)]
        # Padding gives zeros, more or fewer of them with other rows beside it: they change nothing.
        return cls(entries, _largest(flat), entries, indices=indices[values.any(axis=1)])

    def unweighted(self, share: float) -> Observed:
        """Return the gradient of a loss that was multiplied by the share. Pure.

        Args:
            share: Of the samples; 0 leaves zeros.
        """
        return dataclasses.replace(self, entries=self.entries / share if share else self.entries)

    def zeros(self) -> Observed:
        """Return a value that contributes nothing, of the same size. Pure."""
        return dataclasses.replace(
            self, entries=np.zeros_like(self.entries), after=np.zeros_like(self.after)
        )


Observation = dict[Quantity, Observed]
"""All that one run of a step has shown."""


def _flat(value: Any) -> npt.NDArray[Any]:
    return np.asarray(value).reshape(-1)


def _subtractable(flat: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array whose differences neither wrap nor round to few bits."""
    return flat if flat.dtype in (np.float32, np.float64) else flat.astype(np.float64)


def _largest(array: npt.NDArray[Any]) -> float:
    """Return the largest finite absolute entry, without a copy of a large array that is finite."""
    if not array.size:
        return 0.0
    with np.errstate(invalid="ignore"):  # not a number
        ends = float(array.max()), float(array.min())
    if not np.isfinite(ends).all():
        finite = np.abs(array.astype(np.float64))
        ends = (float(finite[np.isfinite(finite)].max(initial=0.0)), 0.0)
    return max(map(abs, ends))


def _places(flat: npt.NDArray[Any], like: Observed | None) -> npt.NDArray[np.int64]:
    """Return which entries of a tensor are compared, among them some that are not zero."""
    if like is not None and like.places is not None and like.size == flat.size:
        return like.places
    places = _places_by_size(flat.size)
    if flat.size <= NUM_SAMPLED or np.count_nonzero(flat[places]) > len(places) // 8:
        return places
    others = np.flatnonzero(flat)
    return np.union1d(places, others[_places_by_size(len(others))])


@functools.lru_cache(maxsize=1024)
def _places_by_size(size: int) -> npt.NDArray[np.int64]:
    """Return some of so many entries: the same on all ranks, in no pattern."""
    if size <= NUM_SAMPLED:
        return np.arange(size)
    chosen = np.random.Generator(np.random.PCG64(size)).integers(0, size, NUM_SAMPLED)
    return np.unique(chosen)
