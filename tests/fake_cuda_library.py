"""The stand-in for CUDA's driver as a library: GPUs for tests on a machine that has none.

`fake_cuda.hpp` says how it differs from the real one. Tests in C++ have it from CMake.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from deadlines import deadline_s

PACKAGE = Path(__file__).parents[1] / "packages/tnt-comm"
SOURCES = PACKAGE / "cpp/tests/fake_cuda"
FOR_PROGRAMS = "fake_cuda.cpp"  # puts it into a program of C++
BUILD_S = deadline_s(300)
# Arithmetic as that of the library: GCC would fuse operations where the processor can.
FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-pthread", "-ffp-contract=off")
VISIBILITY = ("-fvisibility=hidden", "-Wl,-soname,libcuda.so.1")


def compiler() -> list[str]:
    """The words that call the compiler of C++; none if there is none."""
    words = shlex.split(os.environ.get("CXX", "c++"))
    return words if shutil.which(words[0]) else []


@functools.cache
def fake_cuda_library() -> Path:
    """Path of the library, compiled if its sources have changed; skips a test without compiler."""
    if not compiler():
        pytest.skip("no C++ compiler found, which the stand-in for CUDA's driver needs: set CXX")
    sources = sorted(path for path in SOURCES.glob("*.cpp") if path.name != FOR_PROGRAMS)
    command = [*compiler(), *FLAGS, *VISIBILITY, f"-I{PACKAGE / 'cpp'}", f"-I{SOURCES.parent}"]
    headers = [*SOURCES.glob("*.hpp"), *PACKAGE.glob("cpp/tnt/comm/**/*.hpp")]
    number = _hash_of([*sources, *sorted(headers)], command)
    library = PACKAGE / f"build/fake_cuda/{number}/libcuda.so.1"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _compile([*command, *map(str, sources)], library)
    return library


def fake_gpus(number: int = 1, **settings: object) -> dict[str, str]:
    """Variables with which a process finds so many GPUs.

    Args:
        number: How many.
        settings: Others of the stand-in, without its prefix: `delay_us=100` is
            `FAKE_CUDA_DELAY_US`. `fake_cuda.hpp` lists them.
    """
    others = {f"FAKE_CUDA_{name.upper()}": str(value) for name, value in settings.items()}
    library = str(fake_cuda_library())
    return {"TNT_CUDA_LIBRARY": library, "FAKE_CUDA_DEVICES": str(number), **others}


def _hash_of(files: Iterable[Path], command: Iterable[str]) -> str:
    hashed = hashlib.sha256(shlex.join(command).encode())
    for file in files:
        hashed.update(file.read_bytes())
    return hashed.hexdigest()[:16]


def _compile(command: list[str], library: Path) -> None:
    # Another run of pytest may make the same one at this time, and a third find it half written.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        finished = subprocess.run(
            [*command, "-o", str(made)], capture_output=True, text=True, timeout=BUILD_S
        )
        assert finished.returncode == 0, finished.stderr
        made.replace(library)
