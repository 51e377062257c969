"""Rank processes for all tests of one pytest run, so that slow imports are paid once.

Ranks that go on together are kept in pools. A job that fails, or has settings of its own, gets
ranks of its own. Where tests use TensorFlow, all of them are forks of one process that has imported
it and computed nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from deadlines import deadline_s

if TYPE_CHECKING:
    from tnt_comm.testing import Preloaded, RankPool

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_NUM_INTEROP_THREADS": "2",
    "TF_NUM_INTRAOP_THREADS": "1",
}
"""What a rank of a test finds in its environment: one core, no GPU, little noise."""

RUN_TIMEOUT_S = deadline_s(240)
"""Limit of one run in a pool. The longest takes 30 s on a quiet machine."""


def without_faults(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function on a rank; a fault that the check of a step has logged is an error there."""
    faults: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "a bug in Tarantella" in record.getMessage():
                faults.append(record.getMessage())

    logger, handler = logging.getLogger("tnt_keras"), Collect(logging.ERROR)
    logger.addHandler(handler)
    try:
        result = function(*args)
    finally:
        logger.removeHandler(handler)
    assert not faults, "\n".join(faults)
    return result


@pytest.fixture(scope="session")
def pool_of(preloaded: Preloaded) -> Iterator[Callable[..., RankPool]]:
    """Gives the pool with that many ranks and lanes, started when a test asks for it first."""
    from tnt_comm.testing import RankPool  # not every suite has it installed

    class CheckedPool(RankPool):
        def observe(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
            return super().observe(without_faults, function, *args, **options)

    pools: dict[tuple[int, int | None], RankPool] = {}

    def get(size: int, lanes: int | None = None) -> RankPool:
        if (size, lanes) not in pools:
            env = {
                **ENVIRONMENT,
                "TNT_TIMEOUT_S": str(RUN_TIMEOUT_S / 2),
                "TNT_CHECK_STEPS": "1",
                **({} if lanes is None else {"TNT_LANES": str(lanes)}),
            }
            forks_of = preloaded if "tensorflow" in sys.modules else None  # a test has imported it
            pool = CheckedPool(size, env=env, timeout_s=RUN_TIMEOUT_S, preloaded=forks_of)
            pools[size, lanes] = pool
        return pools[size, lanes]

    yield get
    for pool in pools.values():
        pool.close()


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Preloaded]:
    """Gives what `run_ranks` and `observe_ranks` fork: TensorFlow and tnt-keras are imported."""
    from tnt_comm.testing import Preloaded

    with Preloaded(["tensorflow", "keras", "tnt_keras.api.model"], env=ENVIRONMENT) as process:
        yield process


@pytest.fixture(scope="session")
def forks() -> Iterator[Preloaded]:
    """Gives the same without TensorFlow: tnt-comm is imported, and what its tests import."""
    from tnt_comm.testing import Preloaded

    with Preloaded(["numpy", "pytest", "tnt_comm"]) as process:
        yield process
