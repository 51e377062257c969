"""Ranks that are lost, stopped or late, and what the others are told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tnt_comm
from tnt_comm import CommError, CommTimeoutError, FusionPlan, GradientReducer, Group, TensorSpec

LOST = 1  # the rank that something happens to


def names_in_shared_memory(job: str) -> list[str]:
    return [path.name for path in Path("/dev/shm").glob(f"tnt-{job}*")]


def error_of(call: object, *args: object) -> str:
    """Text of the CommError that a call must raise, with its class in front."""
    try:
        call(*args)  # type: ignore[operator]
    except CommError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("no error was raised")


def die_during_allreduce() -> list[str]:
    one = np.ones(1000, np.float32)
    tnt_comm.allreduce(one)
    if tnt_comm.get_rank() == LOST:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    first = error_of(tnt_comm.allreduce, one)
    waited_s = time.monotonic() - start
    return [first, error_of(tnt_comm.barrier), f"{waited_s:.3f}", os.environ["TNT_JOB_ID"]]


def die_with_half_a_bucket() -> str:
    reducer = GradientReducer(
        FusionPlan([TensorSpec("kernel", "float32", 9), TensorSpec("bias", "float32", 2)], 1 << 20)
    )
    reducer.start(1, np.ones(2, np.float32))
    if tnt_comm.get_rank() == LOST:
        os.kill(os.getpid(), signal.SIGKILL)
    reducer.start(0, np.ones(9, np.float32))
    return error_of(reducer.finish, 0)


def forget_to_start() -> str:
    specs = [TensorSpec(name, "float32", 9) for name in ("kernel", "bias")]
    reducer = GradientReducer(FusionPlan(specs, 1 << 20))
    reducer.start(0, np.ones(9, np.float32))
    return error_of(reducer.finish, 0, None, 1.5)


def finish_early() -> str:
    tnt_comm.barrier()
    if tnt_comm.get_rank() == LOST:
        tnt_comm.finalize()
        return ""
    return error_of(tnt_comm.barrier)


def complete_before_a_rank_ends() -> float:
    total = tnt_comm.allreduce(np.full(300_000, 1.0))
    if tnt_comm.get_rank() == LOST:
        tnt_comm.finalize()
    return float(total.sum())


def give_up_on_one_group() -> str:
    group = Group([0, 1])
    if tnt_comm.get_rank() == LOST:
        time.sleep(1.0)  # the other one does not wait that long
        return error_of(group.barrier)
    return error_of(group.barrier, 0.3)


def stop_for_a_while() -> str:
    tnt_comm.barrier()
    if tnt_comm.get_rank() == LOST:
        waker = f"import os, time, signal; time.sleep(3.5); os.kill({os.getpid()}, signal.SIGCONT)"
        process = subprocess.Popen([sys.executable, "-c", waker])
        os.kill(os.getpid(), signal.SIGSTOP)
        process.wait()
    tnt_comm.allreduce(np.ones(3))
    return "done"


def come_late() -> str:
    tnt_comm.barrier()
    if tnt_comm.get_rank() == LOST:
        time.sleep(1.2)
    reducer = GradientReducer(FusionPlan([TensorSpec("kernel", "float32", 9)], 0))
    if tnt_comm.get_rank() == LOST:
        time.sleep(1.2)
    reducer.start(0, np.ones(9, np.float32))
    reducer.finish(0)
    return "done"


def pause_between_steps() -> str:
    specs = [TensorSpec(f"kernel{i}", "float32", 9) for i in range(20)]
    reducer = GradientReducer(FusionPlan(specs, 0))
    for step in range(3):
        time.sleep(1.2)  # both prepare the step
        if step == 2 and tnt_comm.get_rank() == LOST:
            time.sleep(1.5)
        for i in range(len(specs)):
            reducer.start(i, np.ones(9, np.float32))
        for i in range(len(specs)):
            reducer.finish(i)
    return "done"


def wait_for_a_deadline() -> list[str]:
    tnt_comm.init()
    if tnt_comm.get_rank() == LOST:
        time.sleep(1.5)
        return []
    with pytest.raises(TimeoutError) as caught:  # Python's own, too
        tnt_comm.allreduce(np.ones(3), timeout_s=0.5)
    assert isinstance(caught.value, CommTimeoutError)
    return [str(caught.value), error_of(Group().start_barrier)]


def press_ctrl_c() -> str:
    group = Group([0, 1])
    if tnt_comm.get_rank() == LOST:
        time.sleep(1.0)
        return error_of(group.barrier)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(KeyboardInterrupt):
        group.barrier()
    return error_of(group.barrier)


def lose_the_link(cutter: int, command: str) -> str:
    """Returns the error that ends an endless row of allreduces."""
    data = np.ones(1_000_000, np.float32)
    tnt_comm.allreduce(data)
    if tnt_comm.get_rank() == cutter:
        subprocess.Popen(["sh", "-c", f"sleep 0.5; {command}"])

    def go_on_for_ever() -> None:
        while True:
            tnt_comm.allreduce(data)

    return error_of(go_on_for_ever)


def drop_tickets() -> float:
    for _ in range(20):
        Group().start_allreduce(np.ones(100_000))
    return float(tnt_comm.allreduce(np.ones(1))[0])


def create_late() -> str:
    tnt_comm.barrier()
    if tnt_comm.get_rank() == LOST:
        time.sleep(1.2)
    return str(Group([0, 1]).ranks)


def exit_with_work_in_flight() -> None:
    Group().start_allreduce(np.ones(10)) if tnt_comm.get_rank() != LOST else tnt_comm.init()


def fork_and_use() -> int:
    tnt_comm.barrier()
    child = os.fork()
    if child == 0:
        try:
            tnt_comm.barrier()
        except ValueError as error:
            os._exit(7 if "forked" in str(error) else 8)
        os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def use_after_finalize() -> list[str]:
    group, plan = Group(), FusionPlan([TensorSpec("x", "float32", 1)], 0)
    reducer = GradientReducer(plan)
    tnt_comm.barrier()
    tnt_comm.finalize()
    tnt_comm.finalize()
    assert not tnt_comm.is_initialized()
    errors = []
    assert tnt_comm.get_rank() == group.rank
    assert tnt_comm.get_size() == group.size
    for call in (tnt_comm.barrier, group.barrier, lambda: GradientReducer(plan)):
        with pytest.raises(ValueError, match="finalize") as caught:
            call()
        errors.append(str(caught.value))
    if group.size > 1:
        with pytest.raises(ValueError, match="finalize"):
            reducer.start(0, np.ones(1, np.float32))
    return errors
