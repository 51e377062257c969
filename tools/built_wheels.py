"""Which wheels of a folder can be installed here instead of compiling the tree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version
from source_tree import PACKAGES, ROOT

FINGERPRINTS = "sources.json"
SOURCES = (
    *("pyproject.toml", "README.md", "LICENSE"),
    *("CMakeLists.txt", "src", "cpp", "include", "cmake"),
)
BUILT_BY = ("build_wheels.py", "zig_compiler.py")  # below `tools`: flags, and the oldest glibc
MADE_BY_BUILDS = {".so", ".pyc", ".h"}  # below `src`


def wheels_for_this_python(folder: Path, packages: Iterable[str]) -> dict[str, Path]:
    """Return the wheel of each package that was built from the sources of the tree as they are.

    Raises:
        LookupError: Says which package has none.
    """
    built_from = read_fingerprints(folder)
    wheels = {package: wheel_of(folder, package) for package in packages}
    for package in wheels:
        if built_from.get(package) != fingerprint_of(package):
            raise LookupError(f"{folder.name} was built from other sources of {package}")
    return wheels


def read_fingerprints(folder: Path) -> dict[str, str]:
    """Return the fingerprint of the sources that each package in a folder was built from."""
    file = folder / FINGERPRINTS
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def wheel_of(folder: Path, package: str) -> Path:
    """Return the wheel of one package for this Python; LookupError if there is none."""
    version = Version(PACKAGES[package]["project"]["version"])
    tags = set(sys_tags())
    for path in sorted(folder.glob(f"{package.replace('-', '_')}-*.whl")):
        _, found, _, platforms = parse_wheel_filename(path.name)
        if found == version and not tags.isdisjoint(platforms):
            return path
    raise LookupError(f"{folder.name} has no wheel of {package} {version} for this Python")


def fingerprint_of(package: str) -> str:
    """Return a hash of the names and contents of what a wheel is made of."""
    whole = hashlib.sha256()
    for file in sorted(sources_of(package)):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{content} {file.relative_to(ROOT)}\n".encode())
    return whole.hexdigest()


def sources_of(package: str) -> Iterator[Path]:
    """Yield the files that a wheel is made of, and those that say how."""
    yield from (ROOT / "tools" / name for name in BUILT_BY)
    for name in SOURCES:
        source = ROOT / "packages" / package / name
        for file in source.rglob("*") if source.is_dir() else [source]:
            if file.is_file() and not (name == "src" and file.suffix in MADE_BY_BUILDS):
                yield file
