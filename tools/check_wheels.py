"""Build packages from sdist to wheel, and fail if a wheel lacks anything or cannot be imported.

    python tools/check_wheels.py tnt-data tnt-launch

A wheel must hold every module and the licence of the tree, say who wrote it, where it lives and
what it is for, mark its types, and be importable by itself, with its requirements taken from this
environment. Wheels are built in this environment too, which must have what builds them.
"""

from __future__ import annotations

import argparse
import email
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIELDS = ["Author", "Classifier", "License-Expression", "License-File", "Project-URL", "Summary"]
"""Fields of a wheel's metadata that the package indexes show."""


def build_wheel(package: str, folder: Path) -> Path:
    """Build the sdist of a package and, from that, its wheel; return the wheel's path."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--outdir={folder}"]
    built = subprocess.run([*command, ROOT / "packages" / package], capture_output=True, text=True)
    if built.returncode:
        raise SystemExit(f"{package} cannot be built:\n{built.stdout}\n{built.stderr}")
    [wheel] = folder.glob("*.whl")
    return wheel


def check_contents(wheel: Path, sources: Path) -> Iterator[str]:
    """Yield one sentence for everything that a wheel lacks of the folder `sources`, and besides."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        # A folder whose name .gitignore lists, say, is left out of the wheel without a word.
        modules = {path.relative_to(sources).as_posix() for path in sources.rglob("*.py")}
        yield from (f"no {module}" for module in sorted(modules - set(names)))
        fields = email.message_from_bytes(archive.read(metadata))
        yield from (f"no {name} in the metadata" for name in FIELDS if not fields[name])
        licences = [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
        wanted = (ROOT / "LICENSE").read_bytes()
        if [archive.read(name) for name in licences] != [wanted]:
            yield "not the licence of the tree"
        if not any(name.endswith("/py.typed") for name in names):
            yield "no py.typed"


def check_import(wheel: Path, module: str, folder: Path) -> Iterator[str]:
    """Install a wheel alone into a folder, import it from there, and yield what went wrong."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, f"--target={folder}", wheel], check=True)
    program = f"import {module}; print({module}.__file__)"
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        yield f"cannot be imported: {done.stderr.strip()}"
    elif not done.stdout.startswith(str(folder)):
        yield f"another installation was imported: {done.stdout.strip()}"


def main(arguments: list[str] | None = None) -> int:
    """Check every named package; exit status 1 if something is wrong with one."""
    parser = argparse.ArgumentParser(description="Build wheels and look into them.")
    parser.add_argument("packages", nargs="+", help="names of folders in packages/")
    wrong = []
    for package in parser.parse_args(arguments).packages:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch).resolve()
            wheel = build_wheel(package, folder / "dist")
            problems = [*check_contents(wheel, ROOT / "packages" / package / "src")]
            problems += check_import(wheel, package.replace("-", "_"), folder / "installed")
            print(f"{wheel.name}: {'; '.join(problems) or 'fine'}", flush=True)
            wrong += problems
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
