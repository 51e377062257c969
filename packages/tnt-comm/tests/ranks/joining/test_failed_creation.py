"""A rank without memory for something that all create: nobody has it, and all go on."""

import pathlib
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
from engines import GPI2
from gpi2_found import needs_gpi2

import tnt_comm
from tnt_comm import CommError, FusionPlan, GradientReducer, Group, TensorSpec
from tnt_comm.testing import observe_ranks

FAILING = 1
RANKS = [0, 1, 2]
NUM_ELEMENTS = 1 << 24

CREATIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "group": (lambda: Group(RANKS), "group 'ranks 0, 1, 2'"),
    "reducer": (
        lambda: GradientReducer(FusionPlan([TensorSpec("x", "float32", NUM_ELEMENTS)], 0)),
        "GradientReducer 'gradients' of group 'world'",
    ),
    "array": (
        lambda: tnt_comm.empty(NUM_ELEMENTS, "float32"),
        f"an array of {4 * NUM_ELEMENTS} bytes in shared memory of group 'world'",
    ),
}


@contextmanager
def no_memory() -> Iterator[None]:
    """The process gets enough for messages, and nothing for segments."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    num_pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = num_pages * resource.getpagesize() + (1 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def create_without_memory_on_one_rank(what: str) -> tuple[str, float]:
    """Returns the error, and a sum of the group that all go on with."""
    create = CREATIONS[what][0]
    other = Group(RANKS)
    memory = no_memory() if tnt_comm.get_rank() == FAILING else nullcontext()
    with memory, pytest.raises((CommError, MemoryError)) as caught:
        create()
    create()
    return str(caught.value), float(other.allreduce(np.ones(3))[0])


def assert_that_all_go_on(what: str, env: dict[str, str]) -> None:
    env = {"TNT_TIMEOUT_S": "40", **env}
    reports = observe_ranks(create_without_memory_on_one_rank, 3, what, env=env, timeout_s=120)
    for report in reports:
        assert report.outcome == "returned", report.full_text()
        assert report.exit_code == 0
        message, total = report.value
        assert total == 3
        if report.rank != FAILING:
            beginning = f"{CREATIONS[what][1]} could not be created, since rank {FAILING} failed: "
            assert message.startswith(beginning)
            assert reports[FAILING].value[0] in message


@pytest.mark.parametrize("what", CREATIONS)
def test_a_failed_creation_ends_for_all_ranks_and_nothing_else(what: str) -> None:
    assert_that_all_go_on(what, {})


# What GPI-2 registers of a group may be memory that the process has already.
@needs_gpi2
@pytest.mark.parametrize("what", ["reducer", "array"])
def test_a_failed_creation_ends_for_all_ranks_over_gpi2(what: str) -> None:
    assert_that_all_go_on(what, GPI2)
