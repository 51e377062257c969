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
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wl,--gc-sections",
)


@functools.cache
def load() -> ctypes.CDLL:
    """The library of the replay; compiled if its sources have changed."""
    return ctypes.CDLL(str(built("replay.cpp", "-shared")))


def built(source: str, *flags: str) -> Path:
    """What a source of this folder and those of the product are compiled to, if they changed."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    command = [*compiler, *FLAGS, *flags]
    result = BUILDS / f"{Path(source).stem}-{_fingerprint([*command, source])}"
    if not result.exists():
        BUILDS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILDS) as folder:
            unfinished = Path(folder) / result.name
            _compile([*compiler, *FLAGS], source, flags, unfinished)
            unfinished.replace(result)
    return result


def _fingerprint(command: Sequence[str]) -> str:
    """Of all that could be compiled in, and of how."""
    digest = hashlib.sha256(repr(command).encode())
    files = [*FOLDER.glob("*.?pp"), *(TREE / "cpp/tnt").rglob("*.?pp")]
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: Sequence[str], source: str, flags: Sequence[str], result: Path) -> None:
    includes = [f"-I{TREE / 'cpp'}", f"-I{TREE / 'include'}"]
    sources = [FOLDER / source, *(TREE / "cpp/tnt/comm" / name for name in PRODUCT)]
    # Libraries among the flags come last, where the linker looks for what is missing.
    command = [*compiler, *includes, *map(str, sources), *flags, "-o", str(result)]
    finished = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_S
    )
    if finished.returncode:
        sys.exit(f"{shlex.join(command)}\n{finished.stdout}")
