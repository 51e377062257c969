"""Which wheels of a folder can be installed here instead of compiling the tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version
from source_tree import PACKAGES, ROOT

SOURCES = ("pyproject.toml", "CMakeLists.txt", "src", "cpp", "include", "cmake")
MADE_BY_BUILDS = {".so", ".pyc"}


def wheels_for_this_python(folder: Path, packages: Iterable[str]) -> dict[str, Path]:
    """Return the wheel of each package, of the version and not older than the sources of the tree.

    Raises:
        LookupError: Says which package has none.
    """
    return {package: wheel_of(folder, package) for package in packages}


def wheel_of(folder: Path, package: str) -> Path:
    """Return the wheel of one package; LookupError if there is none."""
    version = Version(PACKAGES[package]["project"]["version"])
    tags = set(sys_tags())
    for path in sorted(folder.glob(f"{package.replace('-', '_')}-*.whl")):
        _, found, _, platforms = parse_wheel_filename(path.name)
        if found != version or tags.isdisjoint(platforms):
            continue
        if path.stat().st_mtime < max(file.stat().st_mtime for file in sources_of(package)):
            raise LookupError(f"{path.name} is older than the sources of {package}")
        return path
    raise LookupError(f"{folder.name} has no wheel of {package} {version} for this Python")


def sources_of(package: str) -> Iterator[Path]:
    """Yield the files that a wheel is made of."""
    for name in SOURCES:
        source = ROOT / "packages" / package / name
        files = source.rglob("*") if source.is_dir() else [source]
        yield from (file for file in files if file.is_file() and file.suffix not in MADE_BY_BUILDS)
