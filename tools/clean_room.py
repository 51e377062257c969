"""Install what a release consists of into clean environments, and use it there.

    python tools/clean_room.py dist --python 3.11

A room is an environment outside of the tree that has what pip brings, and no compiler. Packages
are installed there from the folder, and the unit tests of each are run from its sdist, with its own
group of test requirements. Where all are installed, the quick start is run on two ranks, and
`tarantella doctor` must find no problem. At the end stands a table of all rooms.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from built_wheels import fingerprint_of, read_fingerprints
from packaging.requirements import Requirement
from pythons import MINORS, find_pythons
from source_tree import PACKAGES, ROOT, extra_of, local_closure

COMPILER = re.compile(
    r"(.*-)?(cc|c\+\+|gcc|g\+\+|c[89]9|cpp|clang|clang\+\+|ld|as)(-[\d.]+)?"
    r"|cmake|make|ninja|python-zig|zig"
)
DEADLINE_S = 5400  # of a command, of which the longest takes ten minutes
WITHOUT_LONG_TAIL = ("-m", "not thorough", "--hypothesis-profile=short")  # options of pytest


class Room:
    """An environment of one Python in a folder that holds nothing else."""

    def __init__(self, folder: Path, interpreter: Path, chosen: argparse.Namespace) -> None:
        self._folder = folder
        self._dist = chosen.dist.resolve()
        self._reports = chosen.reports.resolve()
        self._tested = chosen.test or PACKAGES
        self._scripts = folder / "environment/bin"
        self._programs = link_programs(folder / "programs")
        create = [sys.executable, "-m", "virtualenv", "--quiet", f"--python={interpreter}"]
        subprocess.run([*create, str(self._scripts.parent)], check=True)
        self.results: list[str] = []  # a line for each thing that was done

    def run(self, program: str, *arguments: str | Path, cwd: Path | None = None) -> None:
        """Run a program of the environment, which must succeed."""
        print("$", program, *arguments, flush=True)
        outside = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in outside}
        variables["PATH"] = f"{self._scripts}:{self._programs}"
        command = [self._scripts / program, *arguments]
        place = cwd or self._folder
        subprocess.run(command, check=True, cwd=place, env=variables, timeout=DEADLINE_S)

    def install(self, *requirements: str) -> None:
        """Install packages of the folder, without the index, and then what they need from there."""
        begin = time.monotonic()
        # Python compiles what is imported; pip would compile all of TensorFlow, for a minute.
        pip = ["-m", "pip", "install", "--quiet", "--no-compile", f"--find-links={self._dist}"]
        named = [Requirement(requirement).name for requirement in requirements]
        own = {package for name in named if name in PACKAGES for package in local_closure(name)}
        if own:
            exact = [f"{name}=={PACKAGES[name]['project']['version']}" for name in sorted(own)]
            self.run("python", *pip, "--no-index", "--no-deps", *exact)
        self.run("python", *pip, *requirements)
        self._note(f"installed {' '.join(requirements)} in {time.monotonic() - begin:.0f} s")

    def remove_packages(self) -> None:
        """Remove all packages of the folder, and leave what they needed."""
        self.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", *PACKAGES)

    def test(self, package: str) -> None:
        """Run the unit tests that the sdist of a package holds, if they are wanted."""
        if package not in self._tested:
            return
        [sdist] = self._dist.glob(f"{package.replace('-', '_')}-*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(self._folder, filter="data")
        unpacked = self._folder / sdist.name.removesuffix(".tar.gz")
        group = f"--group={unpacked / 'pyproject.toml'}:test"
        self.run("python", "-m", "pip", "install", "--quiet", group)
        report = self._reports / f"{self._folder.name}_{package}.xml"
        pytest = ["pytest", "-q", *WITHOUT_LONG_TAIL, f"--junit-xml={report}", "tests/unit"]
        self.run("python", "-m", *pytest, cwd=unpacked)
        self._note(f"{package}: {number_of_tests(report)} unit tests passed")

    def train(self) -> None:
        """Follow the quick start on two ranks."""
        shutil.copytree(ROOT / "models/lenet5", self._folder / "lenet5")
        self.install("scikit-learn>=1.4")
        begin = time.monotonic()
        self.run("tarantella", "-n", "2", "--", "lenet5/train.py")
        self._note(f"quick start on 2 ranks in {time.monotonic() - begin:.0f} s")

    def examine(self) -> None:
        """Let the installation examine itself; a problem is an error."""
        self.run("tarantella", "doctor")
        self._note("tarantella doctor: 0 problems")

    def _note(self, line: str) -> None:
        print(f"==== {line}", flush=True)
        self.results.append(line)


class Use(NamedTuple):
    """What is done in a room, and the packages whose unit tests are run there."""

    do: Callable[[Room], None]
    tested: Sequence[str]


def use_comm(room: Room) -> None:
    """Install collectives beside numpy alone."""
    room.install("tnt-comm")
    room.test("tnt-comm")


def use_launch(room: Room) -> None:
    """Install the launcher by itself."""
    room.install("tnt-launch")
    room.test("tnt-launch")


def use_tensorflow(room: Room) -> None:
    """Install what a user does, what several hosts need, and then one layer upon the other."""
    room.install("tarantella")
    room.train()
    room.test("tarantella")
    room.install("tarantella[cluster]")
    room.examine()
    room.remove_packages()  # but not TensorFlow, which is large
    for layer in ("tnt-data", "tnt-keras"):
        room.install(f"{layer}{extra_of(layer)}")
        room.test(layer)


ROOMS = {
    "tarantella": Use(use_tensorflow, ["tarantella", "tnt-data", "tnt-keras"]),
    "tnt-comm": Use(use_comm, ["tnt-comm"]),
    "tnt-launch": Use(use_launch, ["tnt-launch"]),
}
"""What is done by the name of the room, the longest first."""


def link_programs(folder: Path) -> Path:
    """Fill a folder with links to all programs of this machine but compilers; return it.

    Without those of the environment that runs this.
    """
    folder.mkdir()
    own = sysconfig.get_path("scripts")
    for place in (each for each in os.get_exec_path() if Path(each).is_dir() and each != own):
        for program in Path(place).iterdir():
            link = folder / program.name
            if not COMPILER.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)
    return folder


def refuse_other_sources(dist: Path) -> None:
    """End the program if the files of a release are not those of this tree."""
    built_from = read_fingerprints(dist)
    outdated = [name for name in PACKAGES if built_from.get(name) != fingerprint_of(name)]
    if outdated:
        sys.exit(f"{dist} was built from other sources of {', '.join(outdated)}: build it anew")


def number_of_tests(report: Path) -> int:
    """Return how many tests of a JUnit report were run."""
    [suite] = ElementTree.parse(report).getroot().iter("testsuite")
    return int(suite.attrib["tests"]) - int(suite.attrib["skipped"])


def main(arguments: list[str] | None = None) -> int:
    """Enter each room with each Python; the first failure ends all."""
    parser = argparse.ArgumentParser(description="Use the files of a release in clean rooms.")
    parser.add_argument("dist", type=Path, help="folder that tools/build_wheels.py has filled")
    parser.add_argument("--python", action="append", choices=MINORS, help="minor version")
    parser.add_argument("--room", action="append", choices=ROOMS)
    parser.add_argument("--test", action="append", choices=PACKAGES, help="unit tests of this one")
    parser.add_argument("--reports", type=Path, help="folder for JUnit files")
    chosen = parser.parse_args(arguments)
    lines = []
    with tempfile.TemporaryDirectory(prefix="clean-room-") as scratch:
        chosen.reports = chosen.reports or Path(scratch)
        refuse_other_sources(chosen.dist)
        pythons = find_pythons(chosen.python or MINORS)
        if not pythons:
            sys.exit("No Python to install the release for.")
        for minor, interpreter in pythons.items():
            for name in chosen.room or ROOMS:
                folder = Path(scratch, f"{name}-{minor}")
                folder.mkdir()
                room = Room(folder, interpreter, chosen)
                ROOMS[name].do(room)
                lines += [f"Python {minor}  {line}" for line in room.results]
                shutil.rmtree(folder)
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
