"""Forked children of a rank leave it alone: they may drop all objects, and use none of them."""

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tnt_comm
from tnt_comm import FusionPlan, Gatherer, GradientReducer, Group, TensorSpec
from tnt_comm.testing import run_ranks

# Python 3.12 warns of forks in a process with threads, which is what is tried here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
COUNT = 300_000  # 1.2 MB: buckets are lent and summed in place


class Objects:
    """One of everything, in the middle of its work."""

    def __init__(self) -> None:
        self.array = tnt_comm.empty((COUNT,), "float32")
        self.array[:] = 1 + tnt_comm.get_rank()
        self.group = Group()
        plan = FusionPlan([TensorSpec("small", "float32", 9), TensorSpec("x", "float32", COUNT)], 0)
        self.reducer = GradientReducer(plan)
        self.gatherer = Gatherer("rows")
        self.ticket = self.group.start_allreduce(np.ones(5))
        self.reducer.start(0, np.ones(9, "float32"))
        self.gatherer.start(np.ones(3))

    def uses(self) -> list[Callable[[], Any]]:
        """All ways to use them."""
        ones = np.ones(COUNT, "float32")
        return [
            tnt_comm.barrier,
            lambda: tnt_comm.allreduce(self.array, out=self.array),
            lambda: self.group.allgather(np.ones(3)),
            lambda: self.group.start_barrier(),
            lambda: Group([0]),
            lambda: self.ticket.wait(),
            lambda: self.reducer.start(1, ones),
            lambda: self.reducer.finish(0),
            lambda: self.gatherer.start(np.ones(3)),
            lambda: self.gatherer.finish(),
            lambda: GradientReducer(FusionPlan([TensorSpec("y", "float32", 3)], 0)),
            lambda: tnt_comm.empty((7,), "float32"),
        ]

    def finish(self) -> dict[str, Any]:
        """Go on in the parent."""
        result = {
            "array": self.array.copy(),
            "ticket": self.ticket.wait(),
            "small": self.reducer.finish(0),
            "gathered": self.gatherer.finish(),
        }
        self.reducer.start(1, np.ones(COUNT, "float32"))
        result["x"] = self.reducer.finish(1)
        tnt_comm.allreduce(self.array, out=self.array)
        result["sum"] = self.array
        return result


def use_everything(objects: Objects) -> None:
    for use in objects.uses():
        with pytest.raises(ValueError, match="was forked from one that uses tnt_comm"):
            use()
    sys.exit(7)


def write_and_drop_everything(objects: Objects) -> None:
    objects.array[:] = -1
    objects.reducer.close()
    objects.gatherer.close()
    vars(objects).clear()
    gc.collect()
    sys.exit(7)


def go_on_after_child(target: Callable[[Objects], None]) -> tuple[int, dict[str, Any]]:
    objects = Objects()
    child = multiprocessing.get_context("fork").Process(target=target, args=(objects,))
    child.start()
    child.join(60)
    return int(child.exitcode or 0), objects.finish()


@pytest.mark.parametrize("target", [use_everything, write_and_drop_everything])
def test_a_forked_child_leaves_its_parent_alone(target: Callable[[Objects], None]) -> None:
    for rank, (exit_code, result) in enumerate(run_ranks(go_on_after_child, 2, target)):
        assert exit_code == 7
        np.testing.assert_array_equal(result["array"], np.full(COUNT, 1 + rank))
        np.testing.assert_array_equal(result["ticket"], np.full(5, 2))
        np.testing.assert_array_equal(result["small"], np.full(9, 2))
        np.testing.assert_array_equal(np.concatenate(result["gathered"]), np.ones(6))
        np.testing.assert_array_equal(result["x"], np.full(COUNT, 2))
        np.testing.assert_array_equal(result["sum"], np.full(COUNT, 3))


def read_in_child() -> int:
    array = tnt_comm.empty((COUNT,), "float32")
    array[:] = 5
    child = os.fork()
    if child == 0:
        os._exit(7 if np.all(array == 5) else 8)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_reads_what_an_array_held() -> None:
    assert run_ranks(read_in_child, 2) == [7, 7]
