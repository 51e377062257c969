"""The benchmark of the kernels: its cases, its rows, and its run on small arrays."""

import json

import numpy as np
import pytest
from run_command import run_command

from benchmarks.kernels.__main__ import check_bits, header_of, line_of, make_row
from benchmarks.kernels.cases import DTYPES, Arrays, Case, cases_of, values_of

SUM = Case("combine", "float32", num_sources=2)


class Copying:
    """A stand-in for a library, whose loops copy the first source and add `error`."""

    def __init__(self, arrays, error=0):
        self.arrays = arrays
        self.error = error

    def time(self, loop, repeats):
        self.arrays.targets[0][:] = self.arrays.sources[0] + self.error
        return 1.0


def test_every_dtype_is_combined_or_converted():
    cases = list(cases_of(DTYPES))
    assert {case.dtype for case in cases} == set(DTYPES)
    assert len(set(cases)) == len(cases)
    assert {case.op for case in cases_of(["bool"])} == {"min", "max", "and", "or"}
    assert {case.kind for case in cases_of(["bfloat16"])} == {"scale", "reduce", "widen", "narrow"}


def test_arrays_have_the_size_that_was_asked_for():
    arrays = Arrays(Case("widen", "float16"), True, 8192)
    assert arrays.targets[0].nbytes == 8192
    assert arrays.sources[0].nbytes == 4096
    assert arrays.loop.count == 2048


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_reproducible(dtype):
    assert np.array_equal(values_of(dtype, 100, 1), values_of(dtype, 100, 1))
    assert not np.array_equal(values_of(dtype, 100, 1), values_of(dtype, 100, 2))


def test_other_bits_of_a_compiler_are_an_error():
    arrays = Arrays(SUM, True, 64)
    check_bits(SUM, arrays, {"a": Copying(arrays), "b": Copying(arrays)})
    with pytest.raises(SystemExit, match="float32 sum: the bits of b are not those of a"):
        check_bits(SUM, arrays, {"a": Copying(arrays), "b": Copying(arrays, error=1)})


def test_ratios_are_taken_within_a_round():
    row = make_row(SUM, True, 8192, {"a": [1.0, 2.0, 4.0], "b": [2.0, 4.0, 8.0]})
    assert row["ns"]["a"][1] == 2
    assert row["of_first"] == {"b": [2, 2, 2]}
    assert line_of(row).count("|") == next(header_of(["a", "b"])).count("|")


def test_the_benchmark_runs_on_small_arrays(tmp_path):
    # One compiler by two names: zig would compile its C++ library first, for minutes.
    compilers = ["c++", "g++"]
    file = tmp_path / "rows.jsonl"
    finished = run_command(
        "python -m benchmarks.kernels --dtypes float16 int8 --sizes 300 --rounds 2 --sample-us 1 "
        f"--compilers {' '.join(compilers)} --json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert list(header["versions"]) == compilers
    assert {row["dtype"] for row in rows} == {"float16", "int8"}
    for row in rows:
        assert list(row["ns"]) == compilers
        for lower, median, upper in row["ns"].values():
            assert 0 < lower <= median <= upper < float("inf")
