"""The checks of `nox -s tests`: the commands of each, and which of them a change can break."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from changed import EVERYTHING, can_break, parts_of
from clean_room import ROOMS
from python_headers import MINOR
from run_checks import Check
from source_tree import (
    PACKAGES,
    ROOT,
    WITH_RANKS,
    is_compiled,
    uses_tensorflow,
)

BUILD_FOLDER = f"build/{sys.implementation.cache_tag}"  # below each package that is compiled
SPELLED = (
    *("README.md", "CONTRIBUTING.md", "noxfile.py"),
    *("packages", "docs", "examples", "models", "benchmarks", "tools", "tests"),
)
"""What codespell reads."""
DIST = ROOT / "dist"  # the packages as they are installed


class Suites(NamedTuple):
    """Tests of some folders or files, in one process."""

    title: str
    folders: Sequence[str]
    options: Sequence[str] = ()


class Run(NamedTuple):
    """What checks work with: reports, wheels, GoogleTest, options of pytest, changed parts."""

    reports: Path
    wheels: Mapping[str, Path]  # by package
    googletest: str | None
    pytest_options: Sequence[str]
    changed: Sequence[str] = (EVERYTHING,)


def checks_of(run: Run) -> tuple[list[Check], list[str]]:
    """Return the checks for tools/run_checks.py, and a line for each that the change cannot break.

    Three run at a time, in this order: the longest first, and at the end C++, which has work for
    both cores when the other checks run out. Deadlines are for a machine that is several times
    slower than the usual one.
    """
    others = [
        Check("types", types_commands(), 1200),
        Check("docs", [docs_command()], 1200),
        Check("wheels", wheels_commands(run.wheels), 600),
    ]
    if run.googletest is not None:
        others.append(
            Check("C++ tests", cpp_commands(run.googletest, run.reports / "cpp.xml"), 3600)
        )
    checks, skipped = [Check("style", style_commands(), 600)], []
    rooms, empty = clean_rooms(run)
    for suites in all_suites():
        kept = [folder for folder in suites.folders if can_break(run.changed, folder)]
        skipped += [skipped_line(each) for each in suites.folders if each not in kept]
        if kept:
            checks.append(pytest_check(suites._replace(folders=kept), run))
    # The longest first.
    checks[1:1], skipped = rooms, [*empty, *skipped]
    for check in others:
        if can_break(run.changed, check.title):
            checks.append(check)
        else:
            skipped.append(skipped_line(check.title))
    return checks, list(dict.fromkeys(skipped))


def skipped_line(check: str) -> str:
    """Say why a check is skipped; the line is the same for all files of a folder of tests."""
    folder = "/".join(check.split("/")[:4])
    return f"skipped: {folder}, for nothing has changed in {', '.join(sorted(parts_of(check)))}"


def all_suites() -> list[Suites]:
    """Return the tests in Python, by the process that runs them."""
    with_tensorflow = [name for name in PACKAGES if uses_tensorflow(name)]
    others = [f"packages/{name}/tests/{kind}" for name in PACKAGES for kind in ("ranks", "headers")]
    others = [folder for folder in others if (ROOT / folder).is_dir()]
    plain = [folder for folder in others if folder.split("/")[1] not in with_tensorflow]
    headers = [each for each in others if each not in plain and each.endswith("headers")]
    folders = [f"packages/{name}/tests/ranks" for name in with_tensorflow if name in WITH_RANKS]
    found = (path for each in folders for path in ROOT.glob(f"{each}/**/test_*.py"))
    files = sorted(str(path.relative_to(ROOT)) for path in found)
    # Three checks, so that none is still running when all others have ended.
    ranks = [
        Suites(f"ranks with TensorFlow, part {first + 1}", files[first::3]) for first in range(3)
    ]
    return [
        ranks[1],
        Suites("suites without TensorFlow", [*plain, "tests/tools"]),
        Suites("benchmarks and models", ["tests/bench", "models"]),
        ranks[2],
        # Together, since some commands of the documentation are the jobs that are looked at.
        Suites("documentation and whole jobs", ["tests/docs", "tests/end_to_end"]),
        ranks[0],
        Suites("schedulers", ["tests/schedulers"]),
        Suites("contracts", [*headers, "tests/contract"]),
    ]


def clean_rooms(run: Run) -> tuple[list[Check], list[str]]:
    """Return the checks that run unit tests from sdists, and a line for each that is left out."""
    command = ["python", "tools/clean_room.py", str(DIST), f"--python={MINOR}"]
    checks: list[Check] = []
    skipped: list[str] = []
    for room, use in ROOMS.items():
        folders = {package: f"packages/{package}/tests/unit" for package in use.tested}
        kept = [package for package in use.tested if can_break(run.changed, folders[package])]
        skipped += [skipped_line(folders[each]) for each in use.tested if each not in kept]
        if kept:
            tests = [f"--test={package}" for package in kept]
            one = [*command, f"--room={room}", *tests, f"--reports={run.reports}"]
            checks.append(Check(f"clean room of {room}", [one], 3600))
    return checks, skipped


def pytest_check(suites: Suites, run: Run) -> Check:
    """Return the check that runs tests in one process."""
    report = f"--junit-xml={run.reports / suites.title.replace(' ', '_')}.xml"
    options = [*run.pytest_options, *suites.options, report]
    command = ["python", "-m", "pytest", "-q", "--durations=15", *options, *suites.folders]
    return Check(suites.title, [command], 3600)


def style_commands() -> list[list[str]]:
    """Style, layers, versions, public interfaces, and the tables of variables."""
    sources = [p for p in ROOT.glob("packages/*/cpp/**/*") if p.suffix in (".h", ".hpp", ".cpp")]
    return [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["codespell", *SPELLED],
        ["lint-imports"],
        ["python", "tools/check_layers.py"],
        ["python", "tools/check_versions.py"],
        ["python", "tools/check_public_interface.py"],
        ["python", "tools/write_environment.py", "--check"],
        ["clang-format", "--dry-run", "--Werror", *map(str, sorted(sources))],
    ]


def types_commands() -> list[list[str]]:
    """Check packages and programs, then the models, whose folders have no package above them."""
    sources = [*(f"packages/{package}/src" for package in PACKAGES), "tools", "benchmarks"]
    return [["mypy", *sources], ["mypy", "-p", "models", "--exclude", "lenet5|test_|conftest"]]


def docs_command() -> list[str]:
    """Build the documentation; a warning is an error."""
    return ["sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build/html"]


def cpp_build_commands(googletest: str) -> list[list[str]]:
    """Build tnt-comm's C++ tests, with the compiler of the system."""
    folder = f"packages/tnt-comm/{BUILD_FOLDER}"
    settings = ("BUILD_TESTS=ON", "BUILD_PYTHON=OFF", "WERROR=ON")
    options = [f"-DTNT_COMM_{setting}" for setting in settings]
    options += ["-GNinja", "-DCMAKE_UNITY_BUILD=ON", f"-DGTest_ROOT={googletest}"]
    return [
        ["cmake", "-S", "packages/tnt-comm", "-B", folder, *options],
        ["cmake", "--build", folder, "--parallel", "2"],
    ]


def cpp_commands(googletest: str, report: Path) -> list[list[str]]:
    """Build and run tnt-comm's C++ tests."""
    folder = f"packages/tnt-comm/{BUILD_FOLDER}"
    run = ["ctest", "--test-dir", folder, "--parallel", "4", "--quiet"]
    return [
        *cpp_build_commands(googletest),
        [*run, "--output-junit", str(report)],
        source_command("tnt-comm", report.parent),
    ]


def source_command(package: str, folder: Path) -> list[str]:
    """Build a package as pip does where there is no wheel, with the compiler of the system."""
    variables = [
        f"SKBUILD_BUILD_DIR={BUILD_FOLDER}",
        "SKBUILD_CMAKE_DEFINE=TNT_COMM_WERROR=ON;TNT_COMM_BUILD_PYTHON=ON",
    ]
    fetched = ROOT / f"build/wheels/headers{MINOR}"  # for the wheels, where the system has none
    if fetched.is_dir():
        variables.append(f"CMAKE_ARGS=-DPython_INCLUDE_DIR={fetched}")
    pip = ["python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    return ["env", *variables, *pip, f"--wheel-dir={folder}", f"./packages/{package}"]


def wheels_commands(wheels: Mapping[str, Path]) -> list[list[str]]:
    """Look into the wheels that are installed, and at what an index would show of them."""
    looks = [contents_command(name, path) for name, path in wheels.items()]
    return [*looks, ["twine", "check", "--strict", *map(str, wheels.values())]]


def contents_command(package: str, wheel: Path) -> list[str]:
    """Fail if a wheel lacks a file of the sources, or has others than what a compiler makes."""
    compiled = ["--ignore=W102"] if is_compiled(package) else []
    return ["check-wheel-contents", *compiled, f"--src-dir=packages/{package}/src", str(wheel)]
