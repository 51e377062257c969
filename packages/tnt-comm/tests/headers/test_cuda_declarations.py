"""What the C++ library declares of CUDA's driver is what a `cuda.h` says."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

CPP = Path(__file__).resolve().parents[2] / "cpp"


def folders_with_headers() -> list[Path]:
    """Those of CUDA itself, and of the CUDA that an installed TensorFlow was built for."""
    folders = [*sorted(Path("/usr/local").glob("cuda*/include"))]
    spec = find_spec("tensorflow")
    if spec and spec.origin:
        folders.append(Path(spec.origin).parent / "include/third_party/gpus/cuda/include")
    return sorted({folder.resolve() for folder in folders if (folder / "cuda.h").exists()})


@pytest.mark.skipif(not folders_with_headers(), reason="no cuda.h, and no TensorFlow that has one")
def test_declarations_are_those_of_cuda(tmp_path: Path) -> None:
    for folder in folders_with_headers():
        # Functions are declared there, and not defined anywhere: nothing of them is called.
        program = tmp_path / "declarations"
        words = ["g++", "-std=c++20", "-O1", f"-I{CPP}", f"-I{folder}", "-o", str(program)]
        words += [str(CPP / "tests/device/declarations.cpp"), "-Wl,--unresolved-symbols=ignore-all"]
        compiled = subprocess.run(words, capture_output=True, text=True)
        assert compiled.returncode == 0, compiled.stderr
        checked = subprocess.run([program], capture_output=True, text=True)
        assert checked.returncode == 0, f"{folder}: {checked.stdout}"
