"""Environments of the libraries that ours are compared with."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.jobs import ROOT

PEERS_FOLDER = ROOT / ".nox/bench-peers"
"""Holds an environment of each, which several benchmarks may use."""

# Exact, so that numbers in the documentation can be measured again.
TORCH = ["torch==2.13.0", "numpy"]


def make_environment(folder: Path, requirements: Sequence[str]) -> None:
    """Install into an environment of its own; an existing one is completed, not made anew."""
    if not (folder / "bin/python").exists():
        print(f"making {folder}", flush=True)
        venv.create(folder, with_pip=True, symlinks=True)
    _pip(folder / "bin/python", requirements)


def add_beside(folder: Path, requirements: Sequence[str]) -> None:
    """Install for this interpreter, without dependencies, where nothing else sees it."""
    if not folder.exists():
        print(f"making {folder}", flush=True)
        _pip(Path(sys.executable), ["--no-deps", f"--target={folder}", *requirements])


def chosen_folder() -> Path:
    """The first argument of this program, or the usual place."""
    return Path(sys.argv[1]) if len(sys.argv) > 1 else PEERS_FOLDER


def _pip(python: Path, arguments: Sequence[str]) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *arguments], check=True)
