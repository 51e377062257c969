"""This rank's part of what a step function is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tnt_data import fingerprint_of
from tnt_keras.api.dataset import part_of
from tnt_keras.step.batch_part import (
    BatchPart,
    cut,
    even_sizes,
    has_rows,
    in_order_of_rows,
    num_rows,
    rows_at,
)

_COMPARED_ROWS = 8  # of each tensor: enough to notice other samples, and next to nothing to read


class GivenParts:
    """Finds the samples among what each call of a step function is given.

    They are what comes from `tnt.data.distribute`, and what has as many rows as the batch. All
    ranks have the rest, such as a seed or weights of classes. `name` is that of the function.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._of_any_batch: set[tuple[int, int]] = set()

    def of(self, tensors: Any) -> tuple[BatchPart, int]:
        """Return this rank's part, and a number that must be equal on all ranks. Local.

        Tensors that are parts of different batches, or may be made of one, are a `ValueError`.
        """
        leaves = tf.nest.flatten(tensors)
        parts = [part_of(leaf) for leaf in leaves]
        known = {part for part in parts if part is not None}
        if len(known) > 1:
            raise ValueError(
                f"Some arguments of `{self._name}` are this rank's part of one batch, as "
                "`tnt.data.distribute` gives it, and others of another batch."
            )
        of_all = {i: leaf for i, leaf in enumerate(leaves) if leaf is not None and parts[i] is None}
        sizes = {i: int(num_rows(leaf)) for i, leaf in of_all.items() if has_rows(leaf)}
        num_global = known.pop()[1] if known else _num_samples(list(sizes.values()))
        are_parts = frozenset(i for i, part in enumerate(parts) if part is not None)
        if are_parts:
            self._check_sizes(sizes, num_global)
        some = [_some_rows(leaf, sizes.get(i)) for i, leaf in of_all.items()]
        fingerprint = fingerprint_of((some, tf.constant(list(sizes.values()), tf.int64)))
        return cut(tensors, num_global, are_parts), int(fingerprint)

    def _check_sizes(self, sizes: dict[int, int], num_global: int) -> None:
        """Raise if a tensor beside parts of a batch may be made of this rank's part.

        Where ranks have different numbers of samples, what is made of parts has other sizes on
        some, which tells it.
        """
        of_ranks = set(even_sizes(num_global))
        for i, size in sizes.items():
            if size == num_global or (i, size) in self._of_any_batch:
                continue
            if {size} == of_ranks:
                raise ValueError(
                    f"`{self._name}` is given a tensor of {size} rows beside a batch of "
                    f"{num_global} samples, of which each rank has {size}, as "
                    "`tnt.data.distribute` gives it. Was it made of this rank's part? Give it the "
                    f"elements as they are, and change them in `{self._name}` or by "
                    "`dataset.map`. If it is the same for any batch, let the step read it from a "
                    "`tf.Variable`."
                )
            self._of_any_batch.add((i, size))


def _num_samples(sizes: Sequence[int]) -> int:
    """Return the number of rows that most have, of several the largest; 0 if there are none."""
    counts = Counter(sizes)
    return max(counts, key=lambda size: (counts[size], size), default=0)


def _some_rows(leaf: Any, size: int | None) -> Any:
    if size is None:
        return leaf
    some = tf.range(0, size, max(1, size // _COMPARED_ROWS), dtype=tf.int64)
    return rows_at(in_order_of_rows(leaf), some)
