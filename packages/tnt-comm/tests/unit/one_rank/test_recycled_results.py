"""Large results lie in memory of earlier ones that nobody holds any more, and in no other."""

import gc
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tnt_comm
from tnt_comm import _core

KIB = 1024
LARGE = 64 * KIB  # bytes
Array = npt.NDArray[Any]


def of_bytes(num_bytes: int, value: float = 1) -> npt.NDArray[np.float32]:
    return np.full(num_bytes // 4, value, np.float32)


def is_recycled(array: Array) -> bool:
    """Small results are arrays as numpy makes them."""
    return not array.flags.owndata


@pytest.mark.parametrize("num_bytes", [LARGE, LARGE + 4, 1_000_000, 40 << 20])
def test_a_dropped_result_is_the_memory_of_the_next(num_bytes: int) -> None:
    own = of_bytes(num_bytes)
    address = tnt_comm.allreduce(own).ctypes.data
    for _ in range(3):
        assert tnt_comm.allreduce(own).ctypes.data == address
    first, second = tnt_comm.allreduce(own), tnt_comm.allreduce(own)
    assert address == first.ctypes.data != second.ctypes.data


def test_a_view_keeps_its_memory() -> None:
    total = tnt_comm.allreduce(of_bytes(LARGE, 3))
    address, views = (
        total.ctypes.data,
        [total[5:10], total.reshape(2, -1).T[::3], memoryview(total)],
    )
    del total
    while views:
        gc.collect()
        other = tnt_comm.allreduce(of_bytes(LARGE, 7))
        assert other.ctypes.data != address
        assert all((np.asarray(view) == 3).all() for view in views)
        del other
        views.pop()
    assert tnt_comm.allreduce(of_bytes(LARGE)).ctypes.data == address


def test_small_results_are_as_numpy_makes_them() -> None:
    for own in (np.float32(2), np.zeros((0, 3), np.float32), of_bytes(LARGE - 4)):
        total = tnt_comm.allreduce(own)
        assert (total.shape, total.dtype) == (own.shape, own.dtype)
        assert not is_recycled(total)
        np.testing.assert_array_equal(total, own)


def test_results_of_every_form_are_recycled() -> None:
    matrix = np.arange(200_000, dtype=np.float64).reshape(400, 500)
    group = tnt_comm.Group()
    gatherer = tnt_comm.Gatherer("rows")
    for own in (
        matrix,
        matrix.T,
        matrix[::2, 1:],
        matrix.astype(">f8").astype("f8"),
        matrix.tolist(),
    ):
        gatherer.start(own)
        results = [
            tnt_comm.allreduce(own),
            tnt_comm.allreduce(own, "max", timeout_s=60),
            tnt_comm.broadcast(own),
            tnt_comm.reduce_scatter(own),
            *tnt_comm.allgather(own),
            group.start_allreduce(own).wait(),
            group.start_broadcast(own).wait(),
            group.start_reduce_scatter(own).wait(),
            *group.start_allgather(own).wait(),
            *gatherer.finish(),
        ]
        for result in results:
            np.testing.assert_array_equal(result, own)
            assert is_recycled(result)
            assert result.flags.writeable
            assert result.flags.c_contiguous
        assert len({result.ctypes.data for result in results}) == len(results)
    gatherer.close()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["allreduce", "broadcast", "allgather", "reduce_scatter"]),
            st.sampled_from(["bool", "float32", "int64"]),
            st.integers(0, 100_000),
            st.integers(0, 3),
        ),
        max_size=30,
    )
)
def test_no_result_changes_while_it_is_held(calls: list[tuple[str, str, int, int]]) -> None:
    held: list[tuple[Array, Array]] = []
    for number, (name, dtype, count, num_dropped) in enumerate(calls):
        own = np.full(count, number % 2 if dtype == "bool" else number, dtype)
        form = getattr(tnt_comm, name)
        received = form(own, "max") if name in ("allreduce", "reduce_scatter") else form(own)
        result = received[0] if name == "allgather" else received
        part = slice(count // 3 if number % 3 == 0 else 0, None)
        held.append((result[part], own[part]))
        del received, result, held[: num_dropped if number % 2 else 0]
        for kept, expected in held:
            np.testing.assert_array_equal(kept, expected)


def test_threads_get_memory_of_their_own() -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        held: list[tuple[Array, int]] = []
        group = tnt_comm.Group([0])
        for _ in range(150):
            value = int(random.integers(1000))
            held.append(
                (group.allreduce(of_bytes(int(random.integers(1, 4 * LARGE)), value)), value)
            )
            if len(held) == 6:
                total, expected = held.pop(int(random.integers(6)))
                if not (total == expected).all():
                    wrong.append(f"{expected} became {total}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


@pytest.mark.thorough
def test_memory_that_nobody_uses_is_returned() -> None:
    del_me = tnt_comm.allreduce(of_bytes(8 << 20))
    del del_me
    assert _core.num_idle_bytes() >= 8 << 20
    end = time.monotonic() + 60
    while _core.num_idle_bytes() and time.monotonic() < end:
        time.sleep(0.2)
    assert _core.num_idle_bytes() == 0


def python(code: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TNT_")}
    code = "import os, numpy as np, tnt_comm\nfrom tnt_comm import _core\n" + code
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]  # 3.12's of a fork
    done = subprocess.run(command, env=environment, timeout=110, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_nothing_is_kept_after_finalize_and_results_outlive_it() -> None:
    code = """
total = tnt_comm.allreduce(np.ones(100_000))
other = tnt_comm.allreduce(np.ones(100_000))
del other
assert _core.num_idle_bytes() > 0
tnt_comm.finalize()
assert _core.num_idle_bytes() == 0
assert (total == 1).all()
view = total[1:]
del total
assert _core.num_idle_bytes() == 0 and (view == 1).all()
print("right")
"""
    assert python(code) == "right\n"


def test_a_forked_child_may_drop_results() -> None:
    code = """
total, other = tnt_comm.allreduce(np.ones(100_000)), tnt_comm.allreduce(np.ones(100_000))
del other
child = os.fork()
if child == 0:
    is_right = _core.num_idle_bytes() == 0 and (total == 1).all()
    del total
    os._exit(0 if is_right and _core.num_idle_bytes() == 0 else 1)
assert os.waitpid(child, 0)[1] == 0
assert (total == 1).all() and _core.num_idle_bytes() > 0
print("right")
"""
    assert python(code) == "right\n"


def test_a_process_ends_with_results_that_live() -> None:
    code = """
import atexit
held = [tnt_comm.allreduce(np.ones(100_000)) for _ in range(3)]
atexit.register(held.clear)
kept = tnt_comm.allgather(np.ones(100_000))
print("right")
"""
    assert python(code) == "right\n"


def test_memory_that_is_not_there_is_an_error_of_memory() -> None:
    """Whatever standard library the compiler has linked into the library and into the module."""
    with pytest.raises(MemoryError, match="bad_alloc"):
        _core.new_result(np.dtype(np.float32), [1 << 46])
