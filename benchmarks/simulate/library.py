"""The replay in C++, compiled together with the sources of tnt-comm that it replays."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.jobs import ROOT

FOLDER = Path(__file__).parent
TREE = ROOT / "packages/tnt-comm"
BUILDS = ROOT / ".nox/bench-builds"
BUILD_S = 600

# What is decided there is decided here too. The first three decide, the others are what they need.
PRODUCT = (
    "reducer/plan.cpp",
    "collective/select.cpp",
    "collective/rma/schedule.cpp",
    "collective/descriptor.cpp",
    "kernel/sum_tree.cpp",
    "base/array.cpp",
    "base/error.cpp",
)
# Of the product's headers much is never called, and what that would need is left out.
FLAGS = (
    "-std=c++20",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wl,--gc-sections",
)


@functools.cache
def load() -> ctypes.CDLL:
    """The library; compiled if its sources have changed."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    built = BUILDS / f"simulate-{_fingerprint(compiler)}.so"
    if not built.exists():
        BUILDS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILDS) as folder:
            unfinished = Path(folder) / built.name
            _compile(compiler, unfinished)
            unfinished.replace(built)
    return ctypes.CDLL(str(built))


def _sources() -> list[Path]:
    return [FOLDER / "replay.cpp", *(TREE / "cpp/tnt/comm" / name for name in PRODUCT)]


def _fingerprint(compiler: Sequence[str]) -> str:
    """Of all that could be compiled in, and of how."""
    digest = hashlib.sha256(repr((compiler, FLAGS)).encode())
    files = [*FOLDER.glob("*.?pp"), *(TREE / "cpp/tnt").rglob("*.?pp")]
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: Sequence[str], library: Path) -> None:
    includes = [f"-I{TREE / 'cpp'}", f"-I{TREE / 'include'}"]
    command = [*compiler, *FLAGS, *includes, *map(str, _sources()), "-o", str(library)]
    finished = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_S
    )
    if finished.returncode:
        sys.exit(f"{shlex.join(command)}\n{finished.stdout}")
