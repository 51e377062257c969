"""Python objects travel between ranks, and a block runs on the master rank first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import objects
from cases import cases
from rank_pools import ENVIRONMENT

from tnt_comm.testing import run_ranks

of_all_sizes = cases("size", [2], thorough=[1, 3])


@of_all_sizes
def test_all_ranks_have_the_objects_of_all_ranks(size: int, pool_of: Any) -> None:
    of_ranks = [
        {"rank": rank, "bytes": bytes([rank]) * 5000 * rank, "none": None} for rank in range(size)
    ]
    for found in pool_of(size).run(objects.exchanged, 5000):
        assert found == (of_ranks, [0, "text"], of_ranks[-1])


@of_all_sizes
def test_the_master_has_left_the_block_when_others_enter(
    size: int, pool_of: Any, tmp_path: Path
) -> None:
    expected = [[], *[["of the master"]] * (size - 1)]
    assert pool_of(size).run(objects.order, str(tmp_path)) == expected


def test_others_wait_for_the_block_longer_than_for_any_other_operation(preloaded: Any) -> None:
    env = {**ENVIRONMENT, "TNT_TIMEOUT_S": "0.5"}
    assert run_ranks(objects.late_master, 2, 1.5, env=env, preloaded=preloaded) == [True, True]


def test_others_do_not_enter_a_block_that_failed_on_the_master(pool_of: Any) -> None:
    of_master, of_other = pool_of(2).run(objects.failing_block)
    assert of_master == ("OSError: no space left", True)
    text, was_inside = of_other
    assert not was_inside
    assert text.startswith("RuntimeError: objects.py:")
    assert "rank 0 failed in `tnt.master_first()`: OSError: no space left" in text


def test_a_root_that_is_no_rank_is_an_error(pool_of: Any) -> None:
    for text in pool_of(2).run(objects.wrong_root):
        assert text == "`root` must be a rank from 0 to 1. Received: 7."


def test_an_object_that_cannot_be_pickled_is_an_error_of_all_ranks(pool_of: Any) -> None:
    for rank, (of_broadcast, of_allgather, *others) in enumerate(
        pool_of(2).run(objects.errors_of_sending, "a lambda", 1)
    ):
        for text in (of_broadcast, of_allgather):
            begin = "TypeError: Rank 1: " if rank == 1 else "TypeError: objects.py:"
            assert text.startswith(begin)
            assert f"Rank {rank}: the object of rank 1 cannot be sent" in text
            assert "<lambda>" in text
        assert others == ["goes on"] * 2


def test_an_object_that_cannot_be_loaded_is_an_error_of_all_ranks(pool_of: Any) -> None:
    for of_broadcast, of_allgather, *rest in pool_of(2).run(
        objects.errors_of_sending, "unloadable", 0
    ):
        assert "rank 1 cannot unpickle the object: ValueError" in of_broadcast
        assert "rank 0 cannot unpickle the object: ValueError" in of_allgather
        assert rest == ["goes on"] * 2


def test_what_is_the_same_on_all_ranks_is_printed_once(pool_of: Any) -> None:
    assert pool_of(2).run(objects.printed) == ["epoch: 3\n", ""]
