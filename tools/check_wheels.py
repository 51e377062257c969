"""Build packages from sdist to wheel, and fail if a wheel lacks anything or cannot be imported.

    python tools/check_wheels.py tnt-data tnt-launch
    python tools/check_wheels.py --built dist tnt-comm

A wheel must hold every module and the licence of the tree and nothing else, say who wrote it, where
it lives and what it is for, mark its types, and be importable by itself, with its requirements
taken from this environment. Wheels are built in this environment too, which must have what builds
them. With --built, the contents of wheels in that folder are looked at, and no more.
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
        names = {name for name in archive.namelist() if not name.endswith("/")}
        described = {name for name in names if name.partition("/")[0].endswith(".dist-info")}
        yield from compare_files(names - described, sources)
        [metadata] = [name for name in described if name.endswith("/METADATA")]
        fields = email.message_from_bytes(archive.read(metadata))
        yield from (f"no {name} in the metadata" for name in FIELDS if not fields[name])
        licences = [name for name in described if name.endswith("/licenses/LICENSE")]
        wanted = (ROOT / "LICENSE").read_bytes()
        if [archive.read(name) for name in licences] != [wanted]:
            yield "not the licence of the tree"


def compare_files(names: set[str], sources: Path) -> Iterator[str]:
    """Yield what a wheel lacks of the folder, and what it has that no compiler has made."""
    files = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    # A folder whose name .gitignore lists, say, is left out of the wheel without a word.
    modules = {file for file in files if file.endswith((".py", ".pyi"))}
    yield from (f"no {module}" for module in sorted(modules - names))
    compiled = {name for name in names if name.endswith((".so", ".h"))}
    yield from (f"{name} is no part of it" for name in sorted(names - files - compiled))
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


def check_package(package: str, built: Path | None) -> list[str]:
    """Print what is wrong with the wheel of a package, which may have been built before."""
    sources = ROOT / "packages" / package / "src"
    module = package.replace("-", "_")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        if built is None:
            wheel = build_wheel(package, folder / "dist")
            imported = check_import(wheel, module, folder / "installed")
            problems = [*check_contents(wheel, sources), *imported]
        else:
            [wheel] = built.glob(f"{module}-*.whl")
            problems = [*check_contents(wheel, sources)]
        size = wheel.stat().st_size / 1024
    print(f"{wheel.name}, {size:.0f} kB: {'; '.join(problems) or 'fine'}", flush=True)
    return problems


def main(arguments: list[str] | None = None) -> int:
    """Check every named package; exit status 1 if something is wrong with one."""
    parser = argparse.ArgumentParser(description="Build wheels and look into them.")
    parser.add_argument("packages", nargs="+", help="names of folders in packages/")
    parser.add_argument("--built", type=Path, help="folder of wheels that have been built before")
    options = parser.parse_args(arguments)
    problems = [check_package(package, options.built) for package in options.packages]
    return 1 if any(problems) else 0


if __name__ == "__main__":
    raise SystemExit(main())
