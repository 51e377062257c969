"""The kernels of tnt-comm and the clock of `loops.cpp`, compiled by one compiler."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import PEERS_FOLDER

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("loops.cpp")
TREE = ROOT / "packages/tnt-comm"
ZIG = "zig"
BUILD_S = 600


class Loop(ctypes.Structure):
    """What `time_loop` of `loops.cpp` takes."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("is_baseline", ctypes.c_int),
        ("dtype", ctypes.c_int),
        ("op", ctypes.c_int),
        ("targets", ctypes.POINTER(ctypes.c_void_p)),
        ("num_targets", ctypes.c_size_t),
        ("sources", ctypes.POINTER(ctypes.c_void_p)),
        ("num_sources", ctypes.c_size_t),
        ("count", ctypes.c_size_t),
    )


class Library:
    """The loops of one tree of tnt-comm as one compiler compiles them."""

    def __init__(self, compiler: str, tree: Path, folder: Path) -> None:
        self.compiler = compiler
        self.tree = tree
        self._time_loop = ctypes.CDLL(str(build(compiler, tree, folder))).time_loop
        self._time_loop.argtypes = [ctypes.POINTER(Loop), ctypes.c_long]
        self._time_loop.restype = ctypes.c_double

    def time(self, loop: Loop, repeats: int) -> float:
        """Nanoseconds that one call takes, on average over `repeats`."""
        nanoseconds: float = self._time_loop(loop, repeats)
        return nanoseconds


def default_compilers() -> list[str]:
    """The compiler of this machine, and zig where it is installed."""
    found = [os.environ.get("CXX", "c++")]
    return [*found, ZIG] if python_of_zig().exists() else found


def python_of_zig() -> Path:
    """This interpreter if it has the package ziglang, else that of the peer."""
    has_zig = importlib.util.find_spec("ziglang") is not None
    return Path(sys.executable) if has_zig else PEERS_FOLDER / "zig/bin/python"


def command_of(compiler: str) -> list[str]:
    """The words that call a compiler; zig compiles for the oldest system that wheels run on."""
    if compiler != ZIG:
        return shlex.split(compiler)
    target = f"{platform.machine()}-linux-gnu.2.28"
    return [str(python_of_zig()), "-m", "ziglang", "c++", "-target", target]


def version_of(compiler: str) -> str:
    """How the compiler calls itself."""
    command = [*command_of(compiler), "--version"]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    return finished.stdout.splitlines()[0]


def build(compiler: str, tree: Path, folder: Path) -> Path:
    """Compile the kernels with the options of their own build, and a shared library of them."""
    folder.mkdir()
    caller = folder / "compiler"  # CMake takes the name of one program
    caller.write_text(f'#!/bin/sh\nexec {shlex.join(command_of(compiler))} "$@"\n')
    caller.chmod(0o755)
    objects = folder / "build"
    options = [
        "-DTNT_COMM_BUILD_PYTHON=OFF",
        "-DCMAKE_UNITY_BUILD=ON",
        f"-DCMAKE_CXX_COMPILER={caller}",
    ]
    run(
        [
            "cmake",
            "-S",
            str(tree),
            "-B",
            str(objects),
            "-G",
            "Ninja",
            f"-DCMAKE_CXX_COMPILER={caller}",
            *options,
        ]
    )
    run(["cmake", "--build", str(objects), "--target", "tnt_comm_kernel"])
    parts = [objects / f"cpp/tnt/comm/libtnt_comm_{name}.a" for name in ("kernel", "base")]
    library = folder / "loops.so"
    flags = ["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{tree / 'cpp'}"]
    run([str(caller), *flags, str(SOURCE), *map(str, parts), "-o", str(library)])
    return library


def run(command: Sequence[str]) -> None:
    """Run a command whose output counts only if it fails."""
    finished = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_S
    )
    if finished.returncode:
        sys.exit(f"{shlex.join(command)}\n{finished.stdout}")
