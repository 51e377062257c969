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
from tnt_launch.planning.plan import plan_on_this_host
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.running.execute import run_job

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
    raised = {rank.rank: folder.read_error(rank.rank) for rank in plan.ranks}
    # Ranks end as their functions do, which do not wait for threads.
    end = end.with_errors(
        {rank: (error.time_s, error.traceback) for rank, error in raised.items() if error}
    )
    cause = end.cause
    return Outcome(len(plan.ranks), None if cause is None else cause.rank, end.report(plan))
