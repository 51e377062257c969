"""Describe the C++ compiler of the package `ziglang` to CMake.

The usual compiler builds for the glibc and the processor of its own system. zig is a clang that
knows the symbols of every glibc and links a C++ library of its own: what it builds runs on systems
as old as `GLIBC`.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

GLIBC = "2.28"  # of RHEL 8 and SLES 15 SP1; TensorFlow's own wheels need 2.27
ARCHITECTURES = ("x86_64", "aarch64")
# What C++ code needs of the unwinder. zig would link one of its own into each library. It has to be
# that of the system: glibc unwinds a thread that is ended by it, through frames of ours.
UNWINDER = "libgcc_s.so.1"
UNWIND_FUNCTIONS = (
    *("Backtrace", "DeleteException", "FindEnclosingFunction", "ForcedUnwind", "GetCFA"),
    *("GetDataRelBase", "GetGR", "GetIP", "GetIPInfo", "GetLanguageSpecificData"),
    *("GetRegionStart", "GetTextRelBase", "RaiseException", "Resume", "Resume_or_Rethrow"),
    *("SetGR", "SetIP"),
)


def compiler(language: str, architecture: str) -> list[str]:
    """Return the command that compiles `cc` or `c++` for an architecture."""
    program = Path(sysconfig.get_path("scripts"), "python-zig")
    # zig compiles its C++ library, for a minute, for each kind of code that it meets. What CMake
    # tries is of the kind that counts: optimized, and without symbols that only debuggers need
    # (the system's `strip` knows one architecture).
    target = f"{architecture}-linux-gnu.{GLIBC}"
    return [str(program), language, "-target", target, "-O3", "-s"]


def write_program(folder: Path, tool: str) -> Path:
    """Write a program that runs a tool of zig, for CMake, which wants one word; return its path."""
    program = folder / tool
    zig = Path(sysconfig.get_path("scripts"), "python-zig")
    program.write_text(f'#!/bin/sh\nexec "{zig}" {tool} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def cache_variables(cache: Path) -> dict[str, str]:
    """Return what tells zig where to keep what it compiles for itself: its C++ library."""
    return {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}


def link_unwinder_stub(folder: Path, architecture: str, cache: Path) -> Path:
    """Write a library that stands for the system's unwinder while others are linked."""
    source, library = folder / "unwinder.c", folder / UNWINDER
    lines = (f"void _Unwind_{name}(void) {{}}\n" for name in UNWIND_FUNCTIONS)
    source.write_text("".join(lines), encoding="utf-8")
    options = ["-shared", "-nostdlib", f"-Wl,-soname,{UNWINDER}", "-o", str(library)]
    command = [*compiler("cc", architecture), *options, str(source)]
    subprocess.run(command, check=True, env={**os.environ, **cache_variables(cache)})
    return library


def write_toolchain(folder: Path, architecture: str, cache: Path) -> Path:
    """Write a CMake toolchain file into a folder of its own; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    unwinder = link_unwinder_stub(folder, architecture, cache)
    settings = {
        "CMAKE_C_COMPILER": " ".join(compiler("cc", architecture)),
        "CMAKE_CXX_COMPILER": " ".join(compiler("c++", architecture)),
        "CMAKE_AR": str(write_program(folder, "ar")),
        "CMAKE_RANLIB": str(write_program(folder, "ranlib")),
        "CMAKE_TRY_COMPILE_CONFIGURATION": "Release",
        # What pybind11 would try, and is not used: its link-time optimization.
        "HAS_FLTO": "FALSE",
        "HAS_FLTO_THIN": "FALSE",
        "CMAKE_SHARED_LINKER_FLAGS_INIT": f'"{unwinder}"',
        "CMAKE_MODULE_LINKER_FLAGS_INIT": f'"{unwinder}"',
    }
    if architecture != native_architecture():
        settings |= {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": architecture}
    toolchain = folder / "toolchain.cmake"
    lines = [f"set({name} {value})\n" for name, value in settings.items()]
    toolchain.write_text("".join(lines), encoding="utf-8")
    return toolchain


def native_architecture() -> str:
    """Return the architecture of this Python, such as `x86_64`."""
    return sysconfig.get_platform().partition("-")[2]
