"""The short path of small allreduces is as safe as the long one."""

import os
import signal
import threading
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lost_and_late import LOST
from tree_reference import FLOATS, INTEGERS, assert_same_bits, ops_of, tree, values

import tnt_comm
from tnt_comm import CommError, Group, MismatchError, PeerLostError
from tnt_comm.testing import Preloaded, RankPool, observe_ranks, run_ranks

Pools = Callable[[int], RankPool]


def check_any_plain_array(seed: int) -> None:
    """All arrays that numpy calls contiguous, in place, into another one, or a new one."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    random, own = np.random.default_rng(seed), np.random.default_rng([seed, rank])
    group = Group()
    for _ in range(20):
        dtype = str(random.choice([*FLOATS, *INTEGERS, "bool"]))
        op = str(random.choice(ops_of(dtype)))
        shape = tuple(random.integers(0, 9, random.integers(0, 4)))
        count = int(np.prod(shape))
        inputs = [values(dtype, count, r, seed=seed % 1000).reshape(shape) for r in range(size)]
        array = inputs[rank].copy()
        call = tnt_comm.allreduce if own.random() < 0.5 else group.allreduce
        kind = own.integers(3)
        out = [array, np.empty_like(array), None][kind]
        result = call(array, op, out=out)
        assert result is out or kind == 2
        assert_same_bits(result, tree(inputs, op))
        if kind > 0:
            assert_same_bits(array, inputs[rank])


def check_what_is_not_plain_goes_the_long_way() -> None:
    size = tnt_comm.get_size()

    class Special(np.ndarray):
        pass

    big_endian = np.arange(4, dtype=">f4")
    with pytest.raises(ValueError, match="native byte order"):
        tnt_comm.allreduce(big_endian, out=big_endian)
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="writeable=False"):
        tnt_comm.allreduce(np.ones(3), out=frozen)
    with pytest.raises(ValueError, match="shape"):
        tnt_comm.allreduce(np.ones((2, 3)), out=np.ones((3, 2)))
    with pytest.raises(ValueError, match="dtype"):
        tnt_comm.allreduce(np.ones(3), out=np.ones(3, np.float32))
    with pytest.raises(ValueError, match="op"):
        tnt_comm.allreduce(np.ones(3), "mean")
    with pytest.raises(ValueError, match="not defined"):
        tnt_comm.allreduce(np.ones(3, bool), "sum")
    with pytest.raises(TypeError, match="numpy array"):
        tnt_comm.allreduce(np.ones(3), out=[1, 2, 3])  # type: ignore[arg-type]
    # These are fine, they only take longer.
    assert (tnt_comm.allreduce([1, 2]) == [size, 2 * size]).all()
    assert (tnt_comm.allreduce(np.ones((4, 4))[:, ::2]) == size).all()
    assert (tnt_comm.allreduce(np.ones(3).view(Special)) == size).all()
    assert (tnt_comm.allreduce(np.ones(3), timeout_s=80) == size).all()
    described = np.ones(3, np.dtype(np.float32, metadata={"unit": "m"}))
    assert (tnt_comm.allreduce(described) == size).all()
    misaligned = np.frombuffer(bytearray(13), np.float32, 3, 1)
    misaligned[:] = 1
    assert (tnt_comm.allreduce(misaligned, out=misaligned) == size).all()
    half = np.ones(3, ml_dtypes.bfloat16)
    assert (tnt_comm.allreduce(half, out=half) == size).all()


def check_threads_of_a_rank() -> None:
    """All calls are alike, so it does not matter which thread's meets which."""
    size = tnt_comm.get_size()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                x = np.ones(3)
                assert (tnt_comm.allreduce(x, out=x) == size).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def check_between_other_calls() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    group = Group()
    for step in range(50):
        large = np.full(100_000, float(rank))
        ticket = group.start_allreduce(large, out=large)
        if step % size == rank:
            time.sleep(0.001)  # the others hand their call over to the engine
        small = np.full(3, float(step))
        group.allreduce(small, out=small)
        assert (small == step * size).all()
        assert (ticket.wait() == size * (size - 1) / 2).all()


def interrupt() -> str:
    group = Group([0, 1])
    x = np.ones(3)
    if tnt_comm.get_rank() == LOST:
        time.sleep(1.0)
        with pytest.raises(CommError) as caught:
            group.allreduce(x, out=x)
        return str(caught.value)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(KeyboardInterrupt):
        group.allreduce(x, out=x)
    with pytest.raises(CommError) as caught:
        group.allreduce(x, out=x)
    return str(caught.value)


def lose_a_rank(how: str) -> str:
    x = np.ones(3)
    for _ in range(100):
        tnt_comm.allreduce(x, "max", out=x)
    if tnt_comm.get_rank() == LOST:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        tnt_comm.finalize()
        return ""
    with pytest.raises(PeerLostError) as caught:
        tnt_comm.allreduce(x, out=x)
    return str(caught.value)


def differ() -> list[str]:
    rank = tnt_comm.get_rank()
    x = np.ones(3 + (rank == 1), np.float32)
    messages = []
    for _ in range(2):
        with pytest.raises(MismatchError) as caught:
            tnt_comm.allreduce(x, out=x)
        messages.append(str(caught.value))
    return messages


def stop_and_continue() -> int:
    x = np.zeros(3)
    for step in range(2000):
        x[:] = step
        tnt_comm.allreduce(x, out=x)
        assert x[0] == step * tnt_comm.get_size()
        if tnt_comm.get_rank() == LOST and step % 500 == 0:
            time.sleep(0.05)
    return step


@settings(max_examples=10, deadline=None)
@pytest.mark.parametrize("size", [1, 2, 3])
@given(seed=st.integers(0, 2**32 - 1))
def test_any_plain_array_follows_the_tree(pool_of: Pools, size: int, seed: int) -> None:
    pool_of(size).run(check_any_plain_array, seed)


@pytest.mark.parametrize("size", [1, 2])
def test_what_is_not_plain_goes_the_long_way(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_what_is_not_plain_goes_the_long_way)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_threads_of_a_rank_may_share_it(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_threads_of_a_rank)


@pytest.mark.parametrize("size", [2, 4])
def test_it_keeps_the_order_of_calls(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_between_other_calls)


def test_ctrl_c_ends_it(forks: Preloaded) -> None:
    interrupted, told = run_ranks(interrupt, 2, preloaded=forks)
    assert "the wait was interrupted" in interrupted
    assert "given up by rank 0" in told


@pytest.mark.parametrize("how", ["killed", "finished"])
def test_a_lost_rank_is_named(how: str, forks: Preloaded) -> None:
    reports = observe_ranks(lose_a_rank, 2, how, env={"TNT_TIMEOUT_S": "30"}, preloaded=forks)
    assert "allreduce(float64, 3 elements, sum)" in reports[0].value
    assert f"rank {LOST} (host" in reports[0].value


def test_a_mismatch_is_named_on_all_ranks(forks: Preloaded) -> None:
    for first, later in run_ranks(differ, 3, preloaded=forks):
        assert "ranks 0, 2 called allreduce(float32, 3 elements, sum)" in first
        assert "rank 1 called allreduce(float32, 4 elements, sum)" in first
        assert "broken since an earlier error" in later


def test_more_ranks_than_cores_take_turns(forks: Preloaded) -> None:
    size = min(2 * len(os.sched_getaffinity(0)) + 1, 9)
    totals = run_ranks(stop_and_continue, size, timeout_s=110, preloaded=forks)
    assert totals == [1999] * size
