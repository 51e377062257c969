"""The process between a caller and the ranks of its function: a launcher that ends with it."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import shutil
import signal
import sys
from dataclasses import asdict, dataclass, replace
from types import FrameType

from tnt_launch.errors import LaunchError
from tnt_launch.function.call_folder import CallFolder
from tnt_launch.output.report import RankEnd
from tnt_launch.planning.plan import plan_on_this_host
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.running.execute import JobEnd, run_job

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Order:
    """What a caller wants; the launcher reads it from its stdin."""

    spec: LaunchSpec
    folder: str  # that of the call, which the launcher removes at its end
    name: str  # of the function, for reports


@dataclass(frozen=True)
class Outcome:
    """How a job went; the launcher writes it, as JSON, when all ranks have ended."""

    size: int  # 0 if the job could not be started
    failed_rank: int | None  # the one that failed first
    report: str


def main(caller: int, outcome_fd: int) -> None:
    """Do what the caller orders on stdin, and end with it; the outcome goes to a descriptor."""
    os.set_inheritable(outcome_fd, False)
    _end_with(caller)
    orders = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)  # the ranks have no part in what the caller says
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by the caller
        order: Order = pickle.load(orders)
    except (EOFError, pickle.UnpicklingError, KeyboardInterrupt):  # it has changed its mind
        return
    try:
        with open(outcome_fd, "w", encoding="utf-8") as outcome:
            json.dump(asdict(_run(order)), outcome)
        orders.read(1)  # the caller has read the results, or has ended
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        shutil.rmtree(order.folder, ignore_errors=True)


def _end_with(caller: int) -> None:
    """End this process, after its job and its files, when the caller ends."""
    signal.signal(signal.SIGTERM, _leave)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != caller:
        sys.exit(128 + signal.SIGTERM)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _run(order: Order) -> Outcome:
    try:
        plan = replace(plan_on_this_host(order.spec), script=order.name)
        end = run_job(plan)
    except LaunchError as error:
        return Outcome(0, None, str(error))
    folder = CallFolder(order.folder)
    ends = [_as_the_function_ended(end, folder) for end in end.ends]
    end = JobEnd(tuple(sorted(ends, key=lambda end: end.time_s)), end.interrupted_by)
    cause = end.cause
    return Outcome(len(plan.ranks), None if cause is None else cause.rank, end.report(plan))


def _as_the_function_ended(end: RankEnd, folder: CallFolder) -> RankEnd:
    """Return the end of a rank as that of its function, which does not wait for threads."""
    error = folder.read_error(end.rank)
    if error is None:
        return end
    code = end.exit_code if end.exit_code > 0 else 1
    return replace(
        end,
        exit_code=code,
        time_s=error.time_s,
        was_ended=False,
        stderr=error.traceback,
    )
