"""One call on processes of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tnt_comm.testing.job import Job, pack_call
from tnt_comm.testing.placement import Host, places_of
from tnt_comm.testing.preloaded import Preloaded
from tnt_comm.testing.report import RankReport, RanksFailed

DEFAULT_TIMEOUT_S = 200.0
DEFAULT_GRACE_S = 10.0
FORKS_ON_THIS_HOST = "Forks run on this host: give either `hosts` or `preloaded`."


def run_ranks(
    function: Callable[..., Any],
    size: int,
    *args: Any,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    env: Mapping[str, str] | None = None,
    grace_s: float = DEFAULT_GRACE_S,
    hosts: Sequence[Host] | None = None,
    preloaded: Preloaded | None = None,
) -> list[Any]:
    """Call `function(*args)` on `size` ranks and return what each returned.

    Args:
        function: Defined at the top level of an importable module (a test module is one).
        size: Number of ranks.
        *args: Arguments, the same for every rank; pickled.
        timeout_s: Seconds until ranks that have not finished are asked for their stacks and killed.
        env: Environment variables to add or replace in every rank, over those of this process.
        grace_s: Seconds that the other ranks have after the first failure, for errors of their own.
        hosts: Where the ranks run, in order, `size` of them in all; by default all on this host.
        preloaded: What the ranks are forks of; by default they are fresh interpreters.

    Returns:
        The results in rank order.

    Raises:
        RanksFailed: If a rank raised, died or did not finish in time.
        ValueError: If the call cannot be sent to the ranks, `hosts` are for another `size`, or both
            `hosts` and `preloaded` are given.
    """
    reports = observe_ranks(
        function,
        size,
        *args,
        timeout_s=timeout_s,
        env=env,
        grace_s=grace_s,
        hosts=hosts,
        preloaded=preloaded,
    )
    if any(report.has_failed for report in reports):
        raise RanksFailed(reports, function.__qualname__)
    return [report.value for report in reports]


def observe_ranks(
    function: Callable[..., Any],
    size: int,
    *args: Any,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    env: Mapping[str, str] | None = None,
    grace_s: float = DEFAULT_GRACE_S,
    hosts: Sequence[Host] | None = None,
    preloaded: Preloaded | None = None,
) -> list[RankReport]:
    """Do as `run_ranks` does, but return the outcome of every rank, for tests of failures.

    Returns:
        One `RankReport` per rank, in rank order. No process is left.

    Raises:
        ValueError: As `run_ranks`. Never raises because ranks fail.
    """
    if preloaded is not None and hosts is not None:
        raise ValueError(FORKS_ON_THIS_HOST)
    message = pack_call(function, args, is_last=True)
    job = Job(places_of(size, hosts), env, preloaded)
    try:
        return job.call(message, timeout_s=timeout_s, grace_s=grace_s, is_last=True)
    finally:
        job.close()
