"""The C interface: every function exported, every collective there, statuses instead of crashes."""

import ctypes
import functools
import re
from pathlib import Path

import numpy as np
import pytest

import tnt_comm
from tnt_comm import FusionPlan, Gatherer, GradientReducer, TensorSpec

HEADER = Path(tnt_comm.include_path(), "tnt", "comm", "tnt_comm.h")
FUNCTIONS = re.findall(r"^TNT_COMM_API[^;]*?\b(tnt_\w+)\(", HEADER.read_text(), re.MULTILINE)
OK, USAGE = 0, 1
WORLD, FLOAT32 = 0, 2
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(tnt_comm.library_path())
    loaded.tnt_comm_last_error.restype = ctypes.c_char_p
    handle = ctypes.c_int64
    loaded.tnt_reducer_start.argtypes = [handle, handle, ctypes.c_void_p, ctypes.c_double]
    loaded.tnt_reducer_start_into.argtypes = [
        *(handle, handle, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_double),
        *(RELEASE, ctypes.c_void_p),
    ]
    loaded.tnt_reducer_is_in_place.argtypes = [handle, handle, ctypes.POINTER(ctypes.c_int32)]
    loaded.tnt_reducer_finish.argtypes = [handle, handle, ctypes.c_void_p]
    pointer = ctypes.POINTER(ctypes.c_void_p)
    loaded.tnt_reducer_lend.argtypes = [handle, handle, pointer, pointer]
    loaded.tnt_reducer_return.argtypes = [ctypes.c_void_p]
    loaded.tnt_reducer_return.restype = None
    loaded.tnt_gatherer_start.argtypes = [handle, ctypes.c_void_p, ctypes.c_uint64]
    loaded.tnt_gatherer_wait.argtypes = [handle, ctypes.c_void_p, ctypes.c_void_p]
    loaded.tnt_gatherer_finish.argtypes = [handle, ctypes.c_void_p]
    return loaded


def last_error(library: ctypes.CDLL) -> str:
    return str(library.tnt_comm_last_error().decode())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_exported(library: ctypes.CDLL, name: str) -> None:
    assert getattr(library, name) is not None


def test_the_functions_are_found_in_the_header() -> None:
    assert {"tnt_comm_init", "tnt_group_run", "tnt_gatherer_finish"} <= {*FUNCTIONS}


def test_every_collective_of_python_is_in_c() -> None:
    started = [name for name in dir(tnt_comm.Group) if name.startswith("start_")]
    assert "start_scatter" in started
    kinds = re.search(r"typedef enum \{([^}]*)\} tnt_comm_kind;", HEADER.read_text())
    assert kinds is not None
    in_c = re.findall(r"TNT_COMM_(\w+) =", kinds[1])
    assert sorted(in_c) == sorted(name.removeprefix("start_").upper() for name in started)


def test_reducers_of_python_work_in_c(library: ctypes.CDLL) -> None:
    reducer = GradientReducer(FusionPlan([TensorSpec("x", "float32", 4)], 0))
    values = np.arange(4, dtype=np.float32)
    out = np.empty(4, np.float32)
    assert library.tnt_reducer_start(reducer.handle, 0, values.ctypes.data, 2.0) == OK
    assert library.tnt_reducer_finish(reducer.handle, 0, out.ctypes.data) == OK
    np.testing.assert_array_equal(out, 2 * values)
    assert library.tnt_reducer_finish(reducer.handle, 0, out.ctypes.data) == USAGE
    assert "'x', which is not started" in last_error(library)
    assert library.tnt_reducer_start(reducer.handle, -1, values.ctypes.data, 1.0) == USAGE
    assert "Received: tensor -1" in last_error(library)
    handle = reducer.handle
    reducer.close()
    assert library.tnt_reducer_start(handle, 0, values.ctypes.data, 1.0) == USAGE
    assert f"handle {handle}" in last_error(library)


def test_a_number_of_a_gpu_that_cannot_be_is_refused(library: ctypes.CDLL) -> None:
    create, reducer = library.tnt_reducer_create_on_device, ctypes.c_int64()
    size = ctypes.c_uint64(0)
    whole = (ctypes.c_int64(WORLD), None, size, size, FLOAT32, None)
    assert create(*whole, -2, ctypes.byref(reducer)) == USAGE
    assert "`device` must be -1 for none, or >= 0. Received: device=-2." in last_error(library)


def test_what_is_summed_in_place_in_c_is_released_exactly_once(library: ctypes.CDLL) -> None:
    counts = [20_000, 4]  # one in place, one packed
    reducer = GradientReducer(FusionPlan([TensorSpec(str(n), "float32", n) for n in counts], 0))
    released: list[int] = []
    release = RELEASE(released.append)
    for tensor, count in enumerate(counts):
        is_in_place = ctypes.c_int32(-1)
        status = library.tnt_reducer_is_in_place(reducer.handle, tensor, ctypes.byref(is_in_place))
        assert (status, is_in_place.value) == (OK, 1 if tensor == 0 else 0)
        values = np.arange(count, dtype=np.float32)
        sums = np.empty_like(values)

        def start_into(owner: int) -> int:
            addresses = (values.ctypes.data, sums.ctypes.data)  # noqa: B023 (called here)
            status = library.tnt_reducer_start_into(
                reducer.handle,
                tensor,  # noqa: B023
                *addresses,
                3.0,
                release,
                owner,
            )
            return int(status)

        assert start_into(1) == OK
        assert released == []
        assert start_into(2) == USAGE  # started already
        assert released == [2]
        assert library.tnt_reducer_finish(reducer.handle, tensor, None) == OK
        assert released == [2, 1]
        np.testing.assert_array_equal(sums, 3 * values)
        released.clear()


def test_sums_are_lent_and_returned_in_c(library: ctypes.CDLL) -> None:
    counts = [20_000, 4]
    reducer = GradientReducer(
        FusionPlan([TensorSpec(str(n), "float32", n) for n in counts], 1 << 20)
    )
    data, view = ctypes.c_void_p(), ctypes.c_void_p()

    def lend(tensor: int) -> int:
        status = library.tnt_reducer_lend(
            reducer.handle, tensor, ctypes.byref(data), ctypes.byref(view)
        )
        return int(status)

    assert lend(0) == USAGE  # not started
    values = [np.arange(n, dtype=np.float32) for n in counts]
    for tensor, array in enumerate(values):
        assert library.tnt_reducer_start(reducer.handle, tensor, array.ctypes.data, 3.0) == OK
    assert (lend(1), data.value, view.value) == (OK, None, None)  # small: not lent
    assert library.tnt_reducer_finish(reducer.handle, 1, values[1].ctypes.data) == OK
    assert lend(0) == OK
    assert data.value is not None
    assert data.value % 64 == 0
    lent = np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_float)), (counts[0],))
    np.testing.assert_array_equal(lent, 3 * values[0])
    assert lend(0) == USAGE  # lending finishes the tensor
    reducer.close()
    np.testing.assert_array_equal(lent, 3 * values[0])
    library.tnt_reducer_return(view)


def test_gatherers_of_python_work_in_c(library: ctypes.CDLL) -> None:
    gatherer = Gatherer("rows")
    values = np.arange(5, dtype=np.int16)
    sizes = np.zeros(1, np.uint64)
    total = np.zeros(1, np.uint64)
    assert library.tnt_gatherer_start(gatherer.handle, values.ctypes.data, 10) == OK
    for _ in range(2):  # may be asked again
        arguments = (sizes.ctypes.data, total.ctypes.data)
        assert library.tnt_gatherer_wait(gatherer.handle, *arguments) == OK
    assert (sizes[0], total[0]) == (10, 10)
    assert library.tnt_gatherer_wait(gatherer.handle, None, None) == OK
    out = np.empty(5, np.int16)
    assert library.tnt_gatherer_finish(gatherer.handle, out.ctypes.data) == OK
    np.testing.assert_array_equal(out, values)
    assert library.tnt_gatherer_finish(gatherer.handle, out.ctypes.data) == USAGE


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8])
def test_arrays_of_one_process_are_combined_as_those_of_as_many_ranks(
    library: ctypes.CDLL, count: int
) -> None:
    arrays = np.random.default_rng(count).normal(size=(count, 1001)).astype(np.float32)
    arrays[:, 0] = 1e-40  # subnormal: kept, whatever the thread does with such numbers
    level = list(arrays)
    while len(level) > 1:
        fold = next(prime for prime in (2, 3, 5, 7) if len(level) % prime == 0)
        groups = [level[i : i + fold] for i in range(0, len(level), fold)]
        level = [functools.reduce(np.add, group) for group in groups]
    assert combined(library, arrays) == OK
    assert OUT.tobytes() == level[0].tobytes()


def test_what_cannot_be_combined_is_refused(library: ctypes.CDLL) -> None:
    arrays = np.ones((2, 1001), np.float32)
    assert combined(library, arrays, op=4) == USAGE  # "and" is for integers
    assert "float32" in last_error(library)
    assert combined(library, arrays[:0]) == USAGE
    assert "Received: num_arrays=0" in last_error(library)
    assert library.tnt_comm_combine(None, 2, None, 0, 2, 0) == USAGE
    assert "`arrays` must not be NULL" in last_error(library)


OUT = np.empty(1001, np.float32)


def combined(library: ctypes.CDLL, arrays: np.ndarray, op: int = 0) -> int:
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    return int(
        library.tnt_comm_combine(
            pointers,
            len(arrays),
            ctypes.c_void_p(OUT.ctypes.data),
            ctypes.c_uint64(1001),
            FLOAT32,
            op,
        )
    )
