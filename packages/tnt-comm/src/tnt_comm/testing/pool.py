"""Calls on processes that are kept, so that slow imports are paid once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from tnt_comm.testing.job import Job, pack_call
from tnt_comm.testing.placement import Host, places_of
from tnt_comm.testing.preloaded import Preloaded
from tnt_comm.testing.report import RankReport, RanksFailed
from tnt_comm.testing.run import DEFAULT_GRACE_S, DEFAULT_TIMEOUT_S, FORKS_ON_THIS_HOST

LEAVE_WITHIN_S = 60.0
"""Leaving takes a moment; on a busy machine, the end of an interpreter can take many seconds."""


class RankPool:
    """Ranks that stay alive between runs; a context manager.

    What a run leaves in the processes (imported modules, an initialised `tnt_comm`) is there in the
    next one. After a failing run all processes are ended, and the next run starts new ones as a new
    job. Use a pool in one thread only, and end it before that thread ends.

    Example:
        with RankPool(size=2) as pool:
            first = pool.run(function, 1)
            second = pool.run(function, 2)
    """

    def __init__(
        self,
        size: int,
        env: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        grace_s: float = DEFAULT_GRACE_S,
        hosts: Sequence[Host] | None = None,
        preloaded: Preloaded | None = None,
    ) -> None:
        """Remember the settings, which mean the same as in `run_ranks`; starts nothing. Local."""
        if preloaded is not None and hosts is not None:
            raise ValueError(FORKS_ON_THIS_HOST)
        self.size = size
        self._hosts = places_of(size, hosts)
        self._preloaded = preloaded
        self._env = dict(env or {})
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._job: Job | None = None

    def run(
        self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None
    ) -> list[Any]:
        """Call `function(*args)` on all ranks and return the results in rank order.

        Raises:
            RanksFailed: If a rank raised, died or was not done in time.
            ValueError: If the call cannot be sent to the ranks.
        """
        reports = self.observe(function, *args, timeout_s=timeout_s)
        if any(report.has_failed for report in reports):
            raise RanksFailed(reports, function.__qualname__)
        return [report.value for report in reports]

    def observe(
        self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None
    ) -> list[RankReport]:
        """Do as `run` does, but return the outcome of every rank; never raise for a failing one."""
        message = pack_call(function, args, is_last=False)
        if self._job is None:
            self._job = Job(self._hosts, self._env, self._preloaded)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        is_usable = False
        try:
            reports = self._job.call(
                message, timeout_s=limit_s, grace_s=self._grace_s, is_last=False
            )
            is_usable = not any(report.has_failed for report in reports)
            return reports
        finally:
            if not is_usable:
                self._kill()

    def close(self) -> None:
        """Let the processes end by themselves. Idempotent.

        Raises:
            RanksFailed: If one did not, or ended with an exit code other than 0.
        """
        if self._job is None:
            return
        try:
            failed = self._job.leave(LEAVE_WITHIN_S)
        finally:
            self._kill()
        if failed:
            raise RanksFailed(failed, "leaving the pool")

    def __enter__(self) -> RankPool:
        """Return the pool itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the pool; kill the processes if the block was left by an exception."""
        if kind is None:
            self.close()
        else:
            self._kill()

    def _kill(self) -> None:
        if self._job is not None:
            self._job.close()
            self._job = None
