"""Build what a release consists of: an sdist of each package, and wheels for all Pythons.

    python tools/build_wheels.py dist --python 3.11 --architecture x86_64

Without options: every Python of `requires-python` that is found here, and every architecture. What
has no compiled code gets one wheel; tnt-keras, whose library knows nothing of Python, one per
architecture; tnt-comm one per Python and architecture. Each is built from its sdist, and compiled
code by zig (tools/zig_compiler.py), with a tag that auditwheel has checked.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from built_wheels import FINGERPRINTS, fingerprint_of, read_fingerprints
from packaging.utils import parse_wheel_filename
from pythons import MINORS, find_pythons
from source_tree import PACKAGES, ROOT, build_requirements, extends_python, is_compiled
from zig_compiler import (
    ARCHITECTURES,
    GLIBC,
    cache_variables,
    native_architecture,
    write_toolchain,
)

SCRATCH = ROOT / "build/wheels"
CONSTRAINTS = "constraints.txt"
COMPILED = {".so", ".o", ".a", ".pyc"}
PLATFORM = f"manylinux_{GLIBC.replace('.', '_')}"
# The process has it already: TensorFlow loads our library, and finds its own by its rpath.
OF_TENSORFLOW = "libtensorflow_framework.so.2"


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> None:
    """Run a command whose failure ends the build; programs of this environment are found."""
    print("$", *command, flush=True)
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    subprocess.run(command, check=True, env={**os.environ, "PATH": path, **(env or {})})


def files_of(package: str, dist: Path) -> list[Path]:
    """Return sdists and wheels of a package, of any version."""
    name = package.replace("-", "_")
    return [path for suffix in ("tar.gz", "whl") for path in dist.glob(f"{name}-*.{suffix}")]


def remove_outdated(dist: Path, fingerprints: Mapping[str, str]) -> None:
    """Remove what was built from other sources; wheels of other Pythons from these ones stay."""
    built_from = read_fingerprints(dist)
    for package, fingerprint in fingerprints.items():
        if built_from.get(package) != fingerprint:
            for old in files_of(package, dist):
                old.unlink()


def build_from_tree(package: str, dist: Path) -> Path:
    """Build the sdist, and from it the wheel if nothing is compiled; return the sdist."""
    build = [sys.executable, "-m", "build", "--no-isolation", f"--outdir={dist}"]
    run(*build, *(["--sdist"] if is_compiled(package) else []), ROOT / "packages" / package)
    [sdist] = dist.glob(f"{package.replace('-', '_')}-*.tar.gz")
    compiled = compiled_files(sdist)
    if compiled:
        sys.exit(f"{sdist.name} has compiled files, such as {compiled[0]}: exclude them")
    return sdist


def compiled_files(sdist: Path) -> list[str]:
    """Return what an sdist holds of builds that were made in the tree."""
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    return [name for name in names if Path(name).suffix in COMPILED or "/build/" in name]


def unpack(sdist: Path) -> Path:
    """Unpack an sdist; all Pythons and architectures compile below the folder that is returned."""
    sources = SCRATCH / sdist.name.removesuffix(".tar.gz")
    # All files of an sdist have one date: what was compiled of another would look up to date.
    shutil.rmtree(sources, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(SCRATCH, filter="data")
    return sources


class Environment:
    """A Python with what builds packages, and the folder of its headers."""

    def __init__(self, minor: str, interpreter: Path) -> None:
        folder = SCRATCH / f"python{minor}"
        run(sys.executable, "-m", "virtualenv", "--quiet", f"--python={interpreter}", folder)
        self.python = folder / "bin/python"
        tools = build_requirements(filter(is_compiled, PACKAGES))
        run(self.python, "-m", "pip", "install", "--quiet", *tools)
        self.headers = self.ask(ROOT / "tools/python_headers.py", SCRATCH / f"headers{minor}")
        program = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
        self.extension_suffix = self.ask("-c", program)

    def ask(self, *arguments: str | Path) -> str:
        """Return what the Python prints."""
        command = [self.python, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class WheelBuilder:
    """Compiles wheels from unpacked sdists for one architecture."""

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture
        self._cache = SCRATCH / "zig/cache"
        self._toolchain = write_toolchain(SCRATCH / "zig" / architecture, architecture, self._cache)

    def build(self, sources: Path, environment: Environment, dist: Path) -> None:
        """Put the wheel for the Python of an environment into `dist`."""
        raw = SCRATCH / "raw"
        shutil.rmtree(raw, ignore_errors=True)
        options = ["--no-deps", "--no-build-isolation", f"--wheel-dir={raw}"]
        pip: list[str | Path] = [environment.python, "-m", "pip", "wheel", *options]
        run(*pip, sources, env=self._variables(sources, environment))
        [wheel] = raw.glob("*.whl")
        self._repair(wheel, dist)

    def _variables(self, sources: Path, environment: Environment) -> dict[str, str]:
        # Objects that do not depend on Python are compiled once for all Pythons.
        variables = cache_variables(self._cache) | {
            "CMAKE_TOOLCHAIN_FILE": str(self._toolchain),
            "SKBUILD_BUILD_DIR": str(sources / "build" / self._architecture),
            "SKBUILD_CMAKE_DEFINE": "TNT_COMM_WERROR=ON",
            "SKBUILD_INSTALL_STRIP": "false",  # the compiler leaves nothing to strip
            "_PYTHON_HOST_PLATFORM": f"linux-{self._architecture}",  # for the tag
        }
        suffix = environment.extension_suffix.replace(native_architecture(), self._architecture)
        defines = {
            "Python_INCLUDE_DIR": environment.headers,
            "PYTHON_MODULE_EXTENSION": suffix,
            "PYTHON_MODULE_DEBUG_POSTFIX": "",
        }
        variables["CMAKE_ARGS"] = " ".join(f"-D{name}={value}" for name, value in defines.items())
        return variables

    def _repair(self, wheel: Path, dist: Path) -> None:
        """Let auditwheel find the oldest glibc that a wheel runs with, and name both."""
        found, platform = SCRATCH / "repaired", f"{PLATFORM}_{self._architecture}"
        shutil.rmtree(found, ignore_errors=True)
        # It knows the platforms of this machine's architecture by name, and those of others if it
        # may choose.
        repair = ["auditwheel", "repair", f"--exclude={OF_TENSORFLOW}", f"--wheel-dir={found}"]
        run(*repair, wheel)
        [repaired] = found.glob("*.whl")
        if is_newer_than(repaired, platform):
            sys.exit(f"{repaired.name}: not for {platform}; see `auditwheel show {wheel}`")
        run(sys.executable, "-m", "wheel", "tags", f"--platform-tag=+{platform}", repaired)
        last = max(found.glob("*.whl"), key=lambda path: len(path.name))
        part = dist / f"{last.name}.part"
        shutil.copy(last, part)
        part.rename(dist / last.name)  # complete or not there


def is_newer_than(wheel: Path, platform: str) -> bool:
    """Whether a wheel needs a later glibc than a platform, such as manylinux_2_28_x86_64, has."""

    def glibc(tag: str) -> list[int]:
        return [int(number) for number in tag.split("_")[1:3]]

    tags = [tag.platform for tag in parse_wheel_filename(wheel.name)[3]]
    # Older names, such as manylinux2014, stand beside that of their glibc.
    return min(glibc(tag) for tag in tags if tag.startswith("manylinux_")) > glibc(platform)


def write_fingerprints(dist: Path, fingerprints: Mapping[str, str]) -> None:
    """Write what the files in `dist` are built from."""
    (dist / FINGERPRINTS).write_text(json.dumps(fingerprints, indent=1), encoding="utf-8")


def write_constraints(dist: Path) -> None:
    """Write the versions that lie in `dist`, so that pip takes no other package of their names."""
    versions = {name: table["project"]["version"] for name, table in PACKAGES.items()}
    lines = (f"{name}=={version}\n" for name, version in versions.items())
    (dist / CONSTRAINTS).write_text("".join(lines), encoding="utf-8")


def build_all(dist: Path, minors: list[str], architectures: Iterable[str]) -> None:
    """Build sdists and wheels of all packages into `dist`."""
    fingerprints = {package: fingerprint_of(package) for package in PACKAGES}
    remove_outdated(dist, fingerprints)
    sdists = {package: build_from_tree(package, dist) for package in PACKAGES}
    pythons = [Environment(minor, python) for minor, python in find_pythons(minors).items()]
    write_constraints(dist)
    write_fingerprints(dist, fingerprints)
    if not pythons:
        sys.exit("No Python to build wheels for.")
    sources = {package: unpack(sdists[package]) for package in filter(is_compiled, PACKAGES)}
    for architecture in architectures:
        builder = WheelBuilder(architecture)
        for package in sources:
            for python in pythons if extends_python(package) else pythons[:1]:
                builder.build(sources[package], python, dist)


def main(arguments: list[str] | None = None) -> int:
    """Build into a folder and list what lies there."""
    parser = argparse.ArgumentParser(description="Build sdists and wheels of all packages.")
    parser.add_argument("dist", type=Path, help="folder for sdists and wheels")
    parser.add_argument("--python", action="append", choices=MINORS, help="minor version")
    parser.add_argument("--architecture", action="append", choices=ARCHITECTURES)
    chosen = parser.parse_args(arguments)
    dist = chosen.dist.resolve()
    dist.mkdir(parents=True, exist_ok=True)
    build_all(dist, chosen.python or MINORS, chosen.architecture or ARCHITECTURES)
    for path in sorted(dist.iterdir()):
        print(f"{path.stat().st_size / 1024:8.0f} kB  {path.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
