"""Compile the kernels for GPUs of tnt-comm to the text that is part of the library.

    python tools/write_kernels.py           write kernels.ptx from kernels.cu
    python tools/write_kernels.py --check   fail if it differs from what would be written

Needs nvcc of CUDA 12 or 13, which nobody else needs: drivers compile the text for the GPU that they
find. Other versions of nvcc may write other instructions, so only the version that the text names
can check it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CPP = "packages/tnt-comm/cpp"
SOURCE = f"{CPP}/tnt/comm/device/kernels.cu"
TEXT = f"{CPP}/tnt/comm/device/kernels.ptx"
COMMAND = "python tools/write_kernels.py"

# A sum must have the bits of one on processors: no product and sum become one operation, and
# subnormal numbers are kept. The oldest GPUs that CUDA 13 knows.
OPTIONS = ["-std=c++20", "-fmad=false", "-ftz=false", "-arch=compute_75"]

# The least that has what the kernels use. nvcc writes its own, which older drivers refuse: that of
# CUDA 13 is unknown to all drivers of CUDA 12. The assembler of nvcc checks that it is enough.
LANGUAGE_VERSION = "7.7"

ARCHITECTURES = ["sm_75", "sm_90"]
"""For which the text is assembled, to see that it is valid."""


def find_nvcc() -> str | None:
    """Return the path of nvcc; None if there is none."""
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def release_of(text: str) -> str:
    """Return which nvcc has written a text, or has answered `--version`, such as `V13.0.88`."""
    found = re.search(r"Cuda compilation tools, release [\d.]+, (V\d+(?:\.\d+)*)", text)
    return found[1] if found else "unknown"


def compile_kernels(nvcc: str, root: Path) -> str:
    """Return the text that nvcc makes of the source, for the drivers of CUDA 12 and later."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "kernels.ptx"
        command = [nvcc, *OPTIONS, "-ptx", "-I", str(root / CPP), "-o", str(output)]
        subprocess.run([*command, str(root / SOURCE)], check=True)
        written = output.read_text(encoding="utf-8")
    head, body = written.split(".version", 1)
    body = body.split("\n", 1)[1]
    note = f"// Written by tools/write_kernels.py from kernels.cu, with {release_line(head)}."
    return f"{note}\n.version {LANGUAGE_VERSION}\n{body}"


def release_line(head: str) -> str:
    """Return what the head of a text of nvcc says of its version."""
    return next(line[3:] for line in head.splitlines() if "Cuda compilation tools" in line)


def assemble(nvcc: str, text: str) -> None:
    """Fail unless the text is valid for all architectures."""
    assembler = str(Path(nvcc).resolve().with_name("ptxas"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.ptx"
        source.write_text(text, encoding="utf-8")
        for architecture in ARCHITECTURES:
            command = [assembler, f"-arch={architecture}", "-o", f"{folder}/kernels.cubin"]
            subprocess.run([*command, str(source)], check=True)


def check(nvcc: str, root: Path) -> str:
    """Return a sentence on why the text is not that of the source; empty if it is."""
    present = (root / TEXT).read_text(encoding="utf-8")
    compiled = compile_kernels(nvcc, root)
    if release_of(present) != release_of(compiled):
        return (
            f"{TEXT} was written by nvcc {release_of(present)}, and this is"
            f" {release_of(compiled)}: it cannot be compared."
        )
    return "" if present == compiled else f"{TEXT} is not that of {SOURCE}: run `{COMMAND}`"


def main(arguments: list[str] | None = None) -> int:
    """Write the text or, with `--check`, compare it; exit status 1 if that fails."""
    parser = argparse.ArgumentParser(description="Compile the kernels for GPUs.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args(arguments)
    nvcc = find_nvcc()
    if nvcc is None:
        print("nvcc was not found: install the compiler of CUDA 12 or 13.", file=sys.stderr)
        return 1
    if options.check:
        problem = check(nvcc, ROOT)
        if problem:
            print(problem)
        return 1 if problem else 0
    text = compile_kernels(nvcc, ROOT)
    assemble(nvcc, text)
    (ROOT / TEXT).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
