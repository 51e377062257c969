"""A killed rank is reported by whatever the others wait for, long before the deadline."""

import os
import signal
import time
from collections.abc import Callable

import numpy as np
import pytest
from engines import FAREWELL_S, GPI2
from gpi2_found import needs_gpi2
from lost_and_late import LOST

import tnt_comm
from tnt_comm import FusionPlan, Gatherer, GradientReducer, Group, PeerLostError, TensorSpec
from tnt_comm.testing import Preloaded, observe_ranks


def _sum_bucket() -> Callable[[], object]:
    reducer = GradientReducer(FusionPlan([TensorSpec("kernel", "float32", 9)], 0))

    def start_and_finish() -> None:
        reducer.start(0, np.ones(9, np.float32))
        reducer.finish(0)

    return start_and_finish


def _gather_rows() -> Callable[[], object]:
    gatherer = Gatherer("rows")

    def start_and_finish() -> None:
        gatherer.start(np.ones((2, 3)))
        gatherer.finish()

    return start_and_finish


ROWS = np.ones((6, 50_000))

# What the survivors call, made before the loss, and how their error names it.
OPERATIONS: dict[str, tuple[Callable[[], Callable[[], object]], str]] = {
    "barrier": (lambda: tnt_comm.barrier, "barrier()"),
    "short allreduce": (
        lambda: lambda: tnt_comm.allreduce(np.ones(3)),
        "allreduce(float64, 3 elements, sum)",
    ),
    "long allreduce": (
        lambda: lambda: tnt_comm.allreduce(ROWS),
        "allreduce(float64, 300000 elements of shape (6, 50000), sum)",
    ),
    "broadcast": (
        lambda: lambda: tnt_comm.broadcast(ROWS, root=LOST),
        "broadcast(float64, 300000 elements of shape (6, 50000), root 1)",
    ),
    "allgather": (lambda: lambda: tnt_comm.allgather(ROWS), "allgather(float64, 300000 elements"),
    "reduce_scatter": (
        lambda: lambda: tnt_comm.reduce_scatter(ROWS),
        "reduce_scatter(float64, 300000 elements",
    ),
    "bucket": (_sum_bucket, "step 0 of bucket 0 of 'gradients' ('kernel')"),
    "rows": (_gather_rows, "of Gatherer 'rows' in group 'world'"),
    "group": (lambda: lambda: Group([0, 1, 2]), "group 'ranks 0, 1, 2'"),
    "reducer": (lambda: _sum_bucket, "creation of GradientReducer 'gradients'"),
}


def lose_a_rank(what: str) -> tuple[str, str, float]:
    """Returns the error, that of the next call, and the seconds from the loss to the first."""
    call = OPERATIONS[what][0]()
    tnt_comm.barrier()
    lost_at = float(tnt_comm.broadcast(np.array([time.time() + FAREWELL_S]), root=LOST)[0])
    if tnt_comm.get_rank() == LOST:
        time.sleep(max(0.0, lost_at - time.time()))
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(PeerLostError) as first:
        call()
    waited_s = time.time() - lost_at
    with pytest.raises(PeerLostError) as later:
        tnt_comm.barrier()
    return str(first.value), str(later.value), waited_s


def assert_the_loss_is_named(
    what: str, env: dict[str, str], preloaded: Preloaded | None = None
) -> None:
    settings = {"env": {"TNT_TIMEOUT_S": "40", **env}, "timeout_s": 120, "preloaded": preloaded}
    reports = observe_ranks(lose_a_rank, 3, what, **settings)
    assert reports[LOST].exit_code == -signal.SIGKILL
    for report in reports:
        if report.rank == LOST:
            continue
        assert report.outcome == "returned", report.full_text()
        first, later, waited_s = report.value
        assert OPERATIONS[what][1] in first
        assert f"rank {LOST} (host " in first
        # A group that could not be created is none; all others that the rank is in find out alone.
        assert "broken since an earlier error" in later or what == "group"
        assert waited_s < 10  # the job's timeout is 40 s


@pytest.mark.parametrize("what", OPERATIONS)
def test_a_killed_rank_ends_every_wait(what: str, forks: Preloaded) -> None:
    assert_the_loss_is_named(what, {}, forks)


@needs_gpi2
@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", OPERATIONS)
def test_a_killed_rank_ends_every_wait_over_gpi2(what: str) -> None:
    assert_the_loss_is_named(what, GPI2)
