"""Ctrl-C ends the waits in which a job is joined and objects are created together."""

import pathlib
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

import tnt_comm
from tnt_comm import FusionPlan, Gatherer, GradientReducer, Group, TensorSpec
from tnt_comm.testing import run_ranks

PLAN = FusionPlan([TensorSpec("x", "float32", 3)], 0)
CREATIONS: dict[str, Callable[[], Any]] = {
    "job": tnt_comm.init,
    "counters": tnt_comm.counters,
    "group": lambda: Group([0, 1]),
    "reducer": lambda: GradientReducer(PLAN),
    "gatherer": lambda: Gatherer("rows"),
    "array": lambda: tnt_comm.empty(3, "float32"),
}


def create_alone(name: str, marker: str) -> bool:
    """Create something that the other rank does not, and press Ctrl-C."""
    path = pathlib.Path(marker)
    if name not in ("job", "counters"):
        tnt_comm.barrier()
    if tnt_comm.get_rank() == 1:
        end = time.monotonic() + 30
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.02)
        return path.exists()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        CREATIONS[name]()
    path.touch()
    return True


@pytest.mark.parametrize("name", CREATIONS)
def test_ctrl_c_ends_the_wait_for_ranks_that_do_not_come(name: str, tmp_path: pathlib.Path) -> None:
    marker = str(tmp_path / "interrupted")
    assert run_ranks(create_alone, 2, name, marker) == [True, True]
