"""What is timed: each loop of the kernels on arrays of each type."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.kernels.library import Loop

# In the order of the C++ enumerations.
DTYPES = (
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool",
)  # fmt: skip
OPS = ("sum", "prod", "min", "max", "and", "or")
KINDS = ("combine", "scale", "widen", "narrow", "reduce")
HALVES, FLOATS = DTYPES[:2], DTYPES[:4]
# Elements are kept as these; bfloat16 as its bits.
STORED = {name: np.dtype("uint16" if name == "bfloat16" else name) for name in DTYPES}


@dataclass(frozen=True)
class Case:
    """One loop on arrays of one type and size."""

    kind: str
    dtype: str
    op: str = "sum"
    num_targets: int = 1
    num_sources: int = 1

    @property
    def name(self) -> str:
        """Of the operation, for tables."""
        if self.kind == "combine":
            return self.op if self.num_targets == 1 else f"{self.op} to {self.num_targets}"
        return f"sum of {self.num_sources}" if self.kind == "reduce" else self.kind


def cases_of(dtypes: Sequence[str]) -> Iterator[Case]:
    """All loops for elements of these types."""
    for dtype in dtypes:
        if dtype not in HALVES:
            for op in OPS:
                if is_defined(dtype, op):
                    yield Case("combine", dtype, op, num_sources=2)
        if dtype in FLOATS:
            yield Case("scale", dtype)
            for num_sources in (2, 4):
                yield Case("reduce", dtype, num_sources=num_sources)
        if dtype in HALVES:
            yield Case("widen", dtype)
            yield Case("narrow", dtype)
        if dtype == "float32":
            for num_targets in (2, 4):
                yield Case("combine", dtype, num_targets=num_targets, num_sources=2)


def is_defined(dtype: str, op: str) -> bool:
    """Whether elements of a type can be combined so."""
    return (
        op not in {"sum", "prod"} if dtype == "bool" else op in OPS[: 4 if dtype in FLOATS else 6]
    )


def values_of(dtype: str, count: int, seed: int) -> np.ndarray:
    """Random elements: floats about 1, so that neither they nor their products are special."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, count).astype(np.bool_)
    if dtype not in FLOATS:
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, count, dtype=dtype)
    floats = random.uniform(0.5, 1.5, count).astype(np.float32)
    if dtype == "bfloat16":
        return (floats.view(np.uint32) >> 16).astype(np.uint16)
    return floats.astype(dtype)


class Arrays:
    """The arrays of a case, which all compilers' loops work on."""

    def __init__(self, case: Case, is_baseline: bool, num_bytes: int) -> None:
        source, target = array_types(case)
        count = max(1, num_bytes // max(STORED[source].itemsize, STORED[target].itemsize))
        self.sources = [place(values_of(source, count, k), k) for k in range(case.num_sources)]
        empty = np.zeros(count, STORED[target])
        self.targets = [place(empty, len(self.sources) + k) for k in range(case.num_targets)]
        pointers = [addresses_of(self.targets), addresses_of(self.sources)]
        self.loop = Loop(
            KINDS.index(case.kind), is_baseline, DTYPES.index(case.dtype), OPS.index(case.op),
            pointers[0], case.num_targets, pointers[1], case.num_sources, count,
        )  # fmt: skip

    def results(self) -> list[bytes]:
        """What the targets hold; zeros afterwards."""
        held = [target.tobytes() for target in self.targets]
        for target in self.targets:
            target[:] = 0
        return held


def array_types(case: Case) -> tuple[str, str]:
    """Types of the elements that are read and written."""
    source = "float32" if case.kind == "narrow" else case.dtype
    return source, "float32" if case.kind == "widen" else case.dtype


def place(values: np.ndarray, index: int) -> np.ndarray:
    """Copy to lines of the cache that other arrays of the case do not compete for."""
    page, line = 4096, 64
    memory = np.zeros(values.nbytes + 2 * page, np.uint8)
    begin = -memory.ctypes.data % page + 5 * line * index
    placed = memory[begin : begin + values.nbytes].view(values.dtype)
    placed[:] = values
    return placed


def addresses_of(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    """As a C array."""
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def all_arrays(
    dtypes: Sequence[str], sizes: Sequence[int]
) -> Iterator[tuple[Case, bool, int, Arrays]]:
    """Every case, in both sets of instructions and all sizes."""
    for case, num_bytes in itertools.product(cases_of(dtypes), sizes):
        for is_baseline in (True, False):
            if not (is_baseline and case.kind == "reduce"):  # takes what the processor has
                yield case, is_baseline, num_bytes, Arrays(case, is_baseline, num_bytes)
