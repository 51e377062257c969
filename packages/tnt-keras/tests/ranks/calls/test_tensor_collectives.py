"""The collectives of the original work on numbers, arrays, tensors and nests, as users expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensor_collectives
import tensorflow as tf
from cases import cases
from tensor_collectives import METHODS, VALUES, plain


def _sum(values: list[Any]) -> Any:
    def add(*leaves: Any) -> Any:
        if isinstance(leaves[0], bool):
            return any(leaves)
        if isinstance(leaves[0], tf.Tensor):
            return tf.add_n(leaves)
        total = sum(leaves[1:], start=leaves[0])
        return np.asarray(total) if isinstance(leaves[0], np.ndarray) else total

    return tf.nest.map_structure(add, *values)


def _gathered(values: list[Any]) -> Any:
    def join(*leaves: Any) -> Any:
        flat = np.concatenate([np.asarray(leaf).reshape(-1) for leaf in leaves])
        return tf.convert_to_tensor(flat) if isinstance(leaves[0], tf.Tensor) else flat

    return tf.nest.map_structure(join, *values)


@cases("size", [2], thorough=[3])
def test_values_of_all_kinds_are_summed_sent_and_gathered(size: int, pool_of: Any) -> None:
    results = pool_of(size).run(tensor_collectives.all_kinds, list(VALUES))
    for kind, make in VALUES.items():
        values = [make(rank) for rank in range(size)]
        wanted = {
            "allreduce": plain(_sum(values)),
            "broadcast": plain(values[-1]),
            "allgather": plain(_gathered(values)),
        }
        for rank, result in enumerate(results):
            assert result[kind] == wanted, (kind, rank)


@pytest.mark.parametrize(
    "values",
    [
        [2**63 - 1, 2**63 - 1, 2**63 - 1],
        [-(2**63) + 1, -(2**63) + 1, -1],
        [2**32, -1, 2**32 - 1],
        [2**62, -(2**62), 1],
    ],
)
def test_sums_of_ints_are_exact_beyond_64_bits(values: list[int], pool_of: Any) -> None:
    total = sum(values)
    assert pool_of(3).run(tensor_collectives.sum_of_ints, values) == [(total, [total, -total])] * 3


def test_gathered_lengths_may_differ_and_change(pool_of: Any) -> None:
    wanted = [[1, 1, 2, 2, 2, 2], [0, 0, 0, 0, 1, 1, 2, 2, 2, 2]]
    assert pool_of(3).run(tensor_collectives.gather_different_lengths) == [wanted] * 3


def test_groups_have_a_master_and_collectives_of_their_own(pool_of: Any) -> None:
    *members, other = pool_of(3).run(tensor_collectives.in_groups)
    assert other == {}
    for rank, result in enumerate(members):
        wanted = {"master": 0, "is master": rank == 0, "sum": 3, "root": 1, "all": [0, 1]}
        assert result == wanted


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("keys", ["scalar 1 of 2 at ['loss']'", "scalar 1 of 2 at ['acc']'"]),
        ("later key", ["scalar 2 of 2 at ['b']'", "scalar 2 of 2 at ['c']'"]),
        ("list and dict", ["scalar 1 of 1 at [0]'", "scalar 1 of 1 at ['a']'"]),
        ("scalar and array", ["scalar 1 of 1'", "array 1 of 1'"]),
        ("nesting", ["scalar 1 of 3 at [0]'", "scalar 1 of 3 at [0][0]'"]),
        ("lengths", ["scalar 1 of 2 at [0]'", "scalar 1 of 3 at [0]'"]),
        ("no values", ["no values'", "scalar 1 of 1 at [0]'"]),
    ],
)
@pytest.mark.parametrize("operation", list(METHODS))
def test_nests_that_differ_between_ranks_are_named(
    operation: str, kind: str, texts: list[str], pool_of: Any
) -> None:
    for message in pool_of(2).run(tensor_collectives.different_nests, operation, kind):
        for text in texts:
            assert f"'{operation}: {text} from tensor_collectives.py:" in message, message


def test_values_may_change_after_the_start(pool_of: Any) -> None:
    assert pool_of(2).run(tensor_collectives.overlapped) == [[[2], [2.0, 2.0, 2.0]]] * 2
