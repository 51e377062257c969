"""What the C++ library declares of UCX is what the headers of UCX say."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

CPP = Path(__file__).resolve().parents[2] / "cpp"


def headers_of_the_wheel() -> Path | None:
    spec = find_spec("libucx")
    folder = Path(spec.origin).parent / "include" if spec and spec.origin else None
    return folder if folder and (folder / "ucp/api/ucp.h").exists() else None


@pytest.mark.skipif(headers_of_the_wheel() is None, reason="libucx-cu12 is not installed")
def test_declarations_are_those_of_the_installed_ucx() -> None:
    words = ["g++", "-std=c++20", "-fsyntax-only", f"-I{CPP}", f"-I{headers_of_the_wheel()}"]
    compiled = subprocess.run(
        [*words, str(CPP / "tests/ucx/declarations.cpp")], capture_output=True, text=True
    )
    assert compiled.returncode == 0, compiled.stderr
