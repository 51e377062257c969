"""A stand-in for the driver of CUDA, for ranks on hosts without GPUs."""

import shutil
import subprocess
from pathlib import Path

import pytest

CPP = Path(__file__).parents[1] / "packages/tnt-comm/cpp"
PARTS = ("driver", "objects", "memory", "streams", "kernels", "library")
DEADLINE_S = 300


def build_fake_driver(folder: Path) -> Path:
    """Compile the stand-in of the C++ tests; return the path for `TNT_CUDA_LIBRARY`.

    `packages/tnt-comm/cpp/tests/fake_cuda/fake_cuda.hpp` says how it behaves, and which variables
    set it up.
    """
    library = folder / "libcuda.so.1"
    sources = [str(CPP / f"tests/fake_cuda/{part}.cpp") for part in PARTS]
    options = ["-std=c++20", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-pthread"]
    includes = ["-I", str(CPP), "-I", str(CPP / "tests")]
    command = ["c++", *options, *includes, "-o", str(library), *sources]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    return library


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a stand-in for `libcuda.so.1`; skip where no compiler is."""
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler")
    return str(build_fake_driver(tmp_path_factory.mktemp("driver")))
