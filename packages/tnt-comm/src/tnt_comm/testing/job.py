"""The processes of one job, and a call on all of them that ends by a deadline."""

from __future__ import annotations

import os
import pickle
import secrets
import selectors
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tnt_comm.testing.placement import (
    GaspiVariables,
    Host,
    Placement,
    rendezvous_variables,
)
from tnt_comm.testing.preloaded import Preloaded
from tnt_comm.testing.process import RankProcess
from tnt_comm.testing.report import Outcome, RankReport


class Job:
    """The ranks of one job. Use and close it in the thread that made it."""

    def __init__(
        self,
        hosts: Sequence[Host],
        env: Mapping[str, str] | None,
        preloaded: Preloaded | None = None,
    ) -> None:
        """Start the processes, or fork them; `env` adds to and replaces what they find. Local."""
        placement = Placement(tuple(hosts))
        self._ranks: list[RankProcess] = []
        self._gaspi: GaspiVariables | None = None
        transport = {**os.environ, **(env or {})}.get("TNT_TRANSPORT")
        if transport == "gpi2" or len(placement.hosts) > 1:
            self._gaspi = GaspiVariables(placement)
        job_id, rendezvous = secrets.token_hex(8), rendezvous_variables(placement)
        try:
            for rank in range(placement.size):
                variables = placement.variables(rank, job_id)
                if self._gaspi is not None:
                    variables.update(self._gaspi.of_rank(rank))
                environment = {**os.environ, **rendezvous, **variables, **(env or {})}
                prefix = placement.host_of(rank).prefix
                self._ranks.append(RankProcess(rank, environment, prefix, preloaded))
        except BaseException:
            self.close()
            raise

    def call(
        self, message: bytes, *, timeout_s: float, grace_s: float, is_last: bool
    ) -> list[RankReport]:
        """Execute a call of `pack_call` on all ranks; return a report per rank. Local."""
        # Others have `grace_s` after the first failure. After any failure no process is left.
        watch = _Watch(self._ranks, timeout_s, grace_s, is_last)
        try:
            for process in self._ranks:
                process.send(message, watch.remaining_s())
            return watch.finish()
        finally:
            watch.close()

    def leave(self, timeout_s: float) -> list[RankReport]:
        """Let idle processes end by themselves; reports those that did not end well. Local."""
        for process in self._ranks:
            process.channel.close()  # all at once: leaving may need the other ranks
        end = time.monotonic() + timeout_s
        reports = []
        for process in self._ranks:
            process.leave(max(end - time.monotonic(), 0.01))
            if process.exit_code != 0:
                report = RankReport(process.rank, "died", pid=process.pid, output=process.output())
                reports.append(replace(report, exit_code=process.exit_code))
        return reports

    def close(self) -> None:
        """Kill every process that still lives and release everything. Local, idempotent."""
        for process in self._ranks:
            process.close()
        self._ranks = []
        if self._gaspi is not None:
            self._gaspi.close()


class _Watch:
    """A call in progress: the reports so far, and the deadline of the ranks that are not done."""

    def __init__(
        self, ranks: list[RankProcess], timeout_s: float, grace_s: float, is_last: bool
    ) -> None:
        self._ranks, self._grace_s, self._is_last = ranks, grace_s, is_last
        self._begin = time.monotonic()
        self._end = self._begin + timeout_s
        self._has_failure = False
        self._reports: dict[int, RankReport] = {}
        self._open = set(range(len(ranks)))
        self._selector = selectors.DefaultSelector()
        for process in ranks:
            self._selector.register(process.exit_fd, selectors.EVENT_READ, process)
            self._selector.register(process.channel, selectors.EVENT_READ, process)

    def remaining_s(self) -> float:
        return self._end - time.monotonic()

    def finish(self) -> list[RankReport]:
        while self._open and self.remaining_s() > 0:
            for key, _ in self._selector.select(self.remaining_s()):
                self._look_at(key.data, has_exited=key.fileobj == key.data.exit_fd)
        self._end_the_rest()
        if self._has_failure:
            for process in self._ranks:
                process.kill()
        return [
            replace(self._reports[p.rank], exit_code=p.exit_code, output=p.output())
            for p in self._ranks
        ]

    def close(self) -> None:
        self._selector.close()

    def _look_at(self, process: RankProcess, has_exited: bool) -> None:
        message = process.receive()
        if message is not None:
            self._record(_report_of(process, message))
            if not self._is_last:
                self._open.discard(process.rank)
        if process.is_channel_closed and process.channel in self._selector.get_map():
            self._selector.unregister(process.channel)
        if has_exited:
            self._selector.unregister(process.exit_fd)
            self._open.discard(process.rank)
            reported = self._reports.get(process.rank)
            if reported is None or (reported.outcome == "returned" and process.exit_code != 0):
                self._record(RankReport(process.rank, "died", pid=process.pid))

    def _record(self, report: RankReport) -> None:
        now = time.monotonic()
        self._reports[report.rank] = replace(report, seconds=now - self._begin)
        if report.has_failed and not self._has_failure:
            self._has_failure = True
            self._end = min(self._end, now + self._grace_s)

    def _end_the_rest(self) -> None:
        late = [self._ranks[rank] for rank in sorted(self._open)]
        outcome: Outcome = "ended" if self._has_failure else "timed_out"
        for process in late:
            process.ask_for_stacks()
        stacks = {process.rank: process.stacks() for process in late}
        for process in late:
            process.kill()
            reported = self._reports.get(process.rank)
            if reported is not None and reported.has_failed:
                continue
            if reported is not None:
                stacks[process.rank] += "\n(the function had returned; the process did not end)"
            report = RankReport(process.rank, outcome, pid=process.pid)
            self._record(replace(report, stack_dump=stacks[process.rank]))


def pack_call(function: Callable[..., Any], arguments: tuple[Any, ...], is_last: bool) -> bytes:
    """Turn a call into the message that `child.py` executes. Pure."""
    name = getattr(function, "__qualname__", repr(function))
    module = getattr(function, "__module__", None)
    if module in (None, "__main__") or "<locals>" in name or "<lambda>" in name:
        raise ValueError(
            f"`function` must be defined at the top level of an importable module, because the "
            f"ranks import it by name. Received: {name} of module {module}."
        )
    try:
        function_and_arguments = pickle.dumps((function, arguments))
    except Exception as error:
        raise ValueError(f"{name} or its arguments cannot be sent to the ranks: {error}") from error
    return pickle.dumps(
        {
            "sys_path": [entry or os.getcwd() for entry in sys.path],
            "module": module,
            "file": getattr(sys.modules.get(str(module)), "__file__", None),
            "function_and_arguments": function_and_arguments,
            "is_last": is_last,
        }
    )


def _report_of(process: RankProcess, message: bytes) -> RankReport:
    if message[:1] == b"t":
        text = message[1:].decode(errors="replace")
        return RankReport(process.rank, "raised", traceback=text, pid=process.pid)
    try:
        return RankReport(process.rank, "returned", pickle.loads(message[1:]), pid=process.pid)
    except Exception:
        text = "its result cannot be unpickled here:\n" + traceback.format_exc()
        return RankReport(process.rank, "raised", traceback=text, pid=process.pid)
