"""Bring the first samples of a global batch to all ranks, and take rows of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.collectives.errors import DifferentInputError
from tnt_keras.collectives.messages import allgather, require_same
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.data_check import other_data
from tnt_keras.step.local_batch import CheckedBatch, LocalBatch, num_rows

_NAME = "samples of the probe"
_REMEDY = "Give all ranks samples of the same structure, dtypes and number of dimensions."


@dataclasses.dataclass(frozen=True)
class Samples:
    """The first samples of a global batch, on all ranks.

    Attributes:
        all_rows: The samples in the order of the serial batch: the structure that a model's step
            gets, of eager tensors of shape `(num_rows, ...)`, scalars and None.
        rows: int64 array, the positions in `all_rows` of this rank's samples, ascending; empty on a
            rank without samples.
        num_rows: Number of samples, 1 or more.
    """

    all_rows: Any
    rows: np.ndarray[Any, Any]
    num_rows: int

    def first(self, num_rows: int) -> Samples:
        """Return the first of the samples, at least one. Local."""
        rows = self.rows[self.rows < num_rows]
        return Samples(take_rows(self.all_rows, range(num_rows)), rows, num_rows)


def gather_samples(element: Any, max_rows: int) -> Samples | None:
    """Return the first samples of the global batch of which each rank has a part. Collective.

    The sample at position p is row p // n of rank p % n, as ranks share batches. Where each rank
    brings samples of its own (`LocalBatch`), any number of them, they are put into the same order:
    by their index on the rank, then by rank. A rank sends only those of its rows that are among the
    first, which are at most `ceil(max_rows / n)` where ranks share the batch, and never the
    duplicate that a rank without samples computes on. Where rows of ranks are padded to
    different lengths, the shorter ones get zeros at their ends. Scalars are those of this rank.

    Args:
        element: What this rank's step receives: a `MicroBatch`, `CheckedBatch` or `LocalBatch`, or
            a global batch that all ranks have, for which nothing is sent. None if the data of this
            rank have ended.
        max_rows: The most samples to return, 1 or more, the same on all ranks.

    Returns:
        The samples; None on all ranks if the data of one have ended or there are no samples.

    Raises:
        DifferentInputError: On all ranks, if they have read different batches, or samples of
            different structures or dtypes.
        tnt_comm.MismatchError: On all ranks, if they are in different calls.
    """
    if element is not None and not isinstance(element, MicroBatch | CheckedBatch | LocalBatch):
        return _of_global_batch(_with_tensors(element), max_rows)
    part = _Part.of(element)
    of_ranks = [_Facts(**json.loads(facts)) for facts in allgather(_NAME, part.facts.to_bytes())]
    if any(facts.has_ended for facts in of_ranks):
        return None
    _check_same_batch(of_ranks)
    require_same(
        "the structure of the samples", str(tf.nest.map_structure(_kind, part.data)), _REMEDY
    )
    owners = _owners([facts.num_samples for facts in of_ranks], max_rows)
    if not len(owners):
        return None
    rows = np.flatnonzero(owners == get_rank())
    sent = _serialized(take_rows(part.data, range(len(rows)))) if len(rows) else b""
    received = [message for message in allgather(_NAME, sent) if message]
    joined = _joined([_components(message, part.data) for message in received], part.data)
    # Joined, they are ordered by rank: a stable sort of the owners says where each one has gone.
    in_serial_order = np.argsort(np.argsort(owners, kind="stable"), kind="stable")
    return Samples(take_rows(joined, in_serial_order), rows, len(owners))


def has_one_sample(element: Any) -> bool:
    """Return whether a global batch that all ranks share has a single sample. Local.

    Args:
        element: As for `gather_samples`, not None.
    """
    if isinstance(element, LocalBatch):
        return False
    element = element.micro_batch if isinstance(element, CheckedBatch) else element
    if isinstance(element, MicroBatch):
        return int(element.num_global) == 1
    leaf = next(leaf for leaf in tf.nest.flatten(element) if leaf is not None)
    return tuple(leaf.shape)[:1] == (1,)


def are_alike(samples: Samples) -> bool:
    """Return whether all samples are the same, such as zeros to build a model. Local.

    Args:
        samples: Of a batch.
    """
    if samples.num_rows == 1:
        return True
    leaves = [leaf for leaf in tf.nest.flatten(samples.all_rows) if _has_rows(leaf)]
    return all(
        isinstance(leaf, tf.Tensor) and bool((leaf.numpy() == leaf[:1].numpy()).all())
        for leaf in leaves
    )


def take_rows(structure: Any, rows: Sequence[int] | np.ndarray[Any, Any]) -> Any:
    """Return some rows of a batch, in any order, also several times. Local.

    Args:
        structure: Eager tensors of shape `(batch, ...)`, dense, ragged or sparse, with at least one
            row; scalars and None stay as they are.
        rows: Their positions. None at all gives a duplicate of the first row, as a rank without
            samples has it.

    Returns:
        The structure with tensors of shape `(max(1, len(rows)), ...)`.
    """
    positions = np.asarray(rows, np.int64)
    positions = positions if len(positions) else np.zeros(1, np.int64)

    def take(leaf: Any) -> Any:
        if not _has_rows(leaf):
            return leaf
        if isinstance(leaf, tf.SparseTensor):
            return _sparse_rows(leaf, positions)
        return tf.gather(leaf, positions)

    return tf.nest.map_structure(take, structure)


@dataclasses.dataclass(frozen=True)
class _Facts:
    """What a rank tells the others of its part of a batch.

    Attributes:
        has_ended: Whether it has no more data.
        num_samples: Samples of this rank.
        batch: What is the same on all ranks if they have read the same global batch.
    """

    has_ended: bool = False
    num_samples: int = 0
    batch: Sequence[int] = ()

    def to_bytes(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()


@dataclasses.dataclass(frozen=True)
class _Part:
    """A rank's part of a global batch.

    Attributes:
        data: Its rows, as the model's own step gets them.
        facts: What is to be known of it.
    """

    data: Any
    facts: _Facts

    @staticmethod
    def of(element: Any) -> _Part:
        if element is None:
            return _Part(None, _Facts(has_ended=True))
        if isinstance(element, LocalBatch):
            data = _with_tensors(element.data)
            return _Part(data, _Facts(num_samples=int(num_rows(data))))
        micro_batch = element.micro_batch if isinstance(element, CheckedBatch) else element
        batch = [int(micro_batch.num_global), int(micro_batch.fingerprint)]
        facts = _Facts(num_samples=int(micro_batch.num_local), batch=batch)
        return _Part(_with_tensors(micro_batch.data), facts)


def _of_global_batch(data: Any, max_rows: int) -> Samples | None:
    count = min(max_rows, int(num_rows(data)))
    if count == 0:
        return None
    rows = np.arange(get_rank(), count, get_size(), dtype=np.int64)
    return Samples(take_rows(data, range(count)), rows, count)


def _check_same_batch(of_ranks: Sequence[_Facts]) -> None:
    others = [rank for rank, facts in enumerate(of_ranks) if facts.batch != of_ranks[0].batch]
    if others:
        raise DifferentInputError(f"Rank {get_rank()}: {other_data()} {others}")


def _owners(counts: Sequence[int], max_rows: int) -> np.ndarray[Any, Any]:
    """Return the rank of each of the first samples, which are ordered by their index on it."""
    samples = sorted(
        (index, rank) for rank, count in enumerate(counts) for index in range(min(count, max_rows))
    )
    return np.array([rank for _, rank in samples[:max_rows]], np.int64)


def _with_tensors(structure: Any) -> Any:
    return tf.nest.map_structure(
        lambda leaf: (
            leaf
            if leaf is None or isinstance(leaf, tf.RaggedTensor | tf.SparseTensor)
            else tf.convert_to_tensor(leaf)
        ),
        structure,
    )


def _has_rows(leaf: Any) -> bool:
    return leaf is not None and leaf.shape.rank != 0


def _kind(leaf: Any) -> str:
    """Describe a component by what its rows on all ranks have in common."""
    if leaf is None:
        return "None"
    if isinstance(leaf, tf.RaggedTensor):
        splits = leaf.row_splits.dtype.name
        return (
            f"ragged {leaf.dtype.name} of {leaf.shape.rank} dimensions, {leaf.ragged_rank} of them "
            f"ragged by {splits}"
        )
    form = "sparse" if isinstance(leaf, tf.SparseTensor) else "dense"
    return f"{form} {leaf.dtype.name} of {leaf.shape.rank} dimensions"


def _sparse_rows(tensor: tf.SparseTensor, rows: np.ndarray[Any, Any]) -> tf.SparseTensor:
    indices = tensor.indices.numpy()
    order = np.argsort(indices[:, 0], kind="stable")
    ordered = indices[order, 0]
    bounds = zip(np.searchsorted(ordered, rows), np.searchsorted(ordered, rows + 1), strict=True)
    of_rows = [order[begin:end] for begin, end in bounds]
    taken = np.concatenate(of_rows)
    new_rows = np.repeat(np.arange(len(rows)), [len(entries) for entries in of_rows])
    return tf.SparseTensor(
        np.concatenate([new_rows[:, np.newaxis], indices[taken, 1:]], axis=1),
        tf.gather(tensor.values, taken),
        tf.concat([[len(rows)], tensor.dense_shape[1:]], axis=0),
    )


def _serialized(structure: Any) -> bytes:
    """Return the components with rows as bytes, of any dtype."""
    parts = [tf.io.serialize_tensor(part) for part in _parts(structure)]
    return tf.io.serialize_tensor(tf.stack(parts)).numpy()


def _components(message: bytes, like: Any) -> list[Any]:
    """Return the components with rows that another rank has sent, in the order of `flatten`."""
    serialized = iter(tf.io.parse_tensor(message, tf.string))
    components = []
    for leaf in tf.nest.flatten(like):
        if not _has_rows(leaf):
            continue
        parts = [tf.io.parse_tensor(next(serialized), part.dtype) for part in _parts(leaf)]
        if isinstance(leaf, tf.SparseTensor):
            components.append(tf.SparseTensor(*parts))
        elif isinstance(leaf, tf.RaggedTensor):
            components.append(tf.RaggedTensor.from_nested_row_splits(parts[0], parts[1:]))
        else:
            components.append(parts[0])
    return components


def _parts(structure: Any) -> list[tf.Tensor]:
    """Return the dense tensors that components with rows are made of."""
    parts: list[tf.Tensor] = []
    for leaf in tf.nest.flatten(structure):
        if isinstance(leaf, tf.SparseTensor):
            parts += [leaf.indices, leaf.values, leaf.dense_shape]
        elif isinstance(leaf, tf.RaggedTensor):
            parts += [leaf.flat_values, *leaf.nested_row_splits]
        elif _has_rows(leaf):
            parts.append(leaf)
    return parts


def _joined(of_ranks: list[list[Any]], like: Any) -> Any:
    """Return the rows of all ranks, one rank after the other, in the structure of `like`."""
    components = iter([_concatenated(parts) for parts in zip(*of_ranks, strict=True)])
    return tf.nest.map_structure(lambda leaf: next(components) if _has_rows(leaf) else leaf, like)


def _concatenated(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], tf.SparseTensor):
        return tf.sparse.concat(0, list(parts), expand_nonconcat_dims=True)
    if isinstance(parts[0], tf.RaggedTensor):
        return tf.concat(parts, axis=0)
    longest = np.max([part.shape[1:] for part in parts], axis=0, initial=0)
    return tf.concat([_padded(part, longest) for part in parts], axis=0)


def _padded(tensor: tf.Tensor, shape: np.ndarray[Any, Any]) -> tf.Tensor:
    missing = shape - np.array(tensor.shape[1:], np.int64)
    return tf.pad(tensor, [(0, 0), *((0, n) for n in missing)]) if missing.any() else tensor
