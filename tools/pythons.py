"""Find the Pythons of this machine that the packages can be built for and installed in."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from packaging.specifiers import SpecifierSet
from source_tree import PACKAGES

REQUIRES = SpecifierSet(PACKAGES["tnt-comm"]["project"]["requires-python"])
MINORS = [minor for minor in (f"3.{number}" for number in range(100)) if minor in REQUIRES]
"""Such as "3.10"; as requires-python says."""
ADVICE = "put it on PATH as python{minor}, or install it with pyenv"


def find_python(minor: str) -> Path | None:
    """Return the interpreter of a minor version, or None."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in candidates(minor):
        try:
            found = subprocess.run([candidate, "-c", program], capture_output=True, text=True)
        except OSError:  # no program of this machine
            continue
        if found.stdout.strip() == minor:  # not that of a shim without a Python behind it
            return candidate
    return None


def candidates(minor: str) -> Iterator[Path]:
    """Yield what may be an interpreter: on PATH, then of pyenv, the latest first."""
    for folder in os.get_exec_path():
        found = shutil.which(f"python{minor}", path=folder)
        if found is not None:
            yield Path(found)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = root.glob(f"versions/{minor}.*/bin/python{minor}")
    yield from sorted(installed, key=lambda path: int(path.parts[-3].split(".")[2]), reverse=True)


def find_pythons(minors: list[str]) -> dict[str, Path]:
    """Return the interpreters that are there, by minor version; print which are not."""
    found = {minor: find_python(minor) for minor in minors}
    for minor in (minor for minor, python in found.items() if python is None):
        print(f"Python {minor} is not found here: {ADVICE.format(minor=minor)}.", flush=True)
    return {minor: python for minor, python in found.items() if python is not None}
