"""Everything that can be run on this tree, one session each: `python -m nox --list`.

Packages are found in packages/, so that a new one needs no line here. A session installs what it
needs from the tree in one pip call: siblings then never come from an index.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
PACKAGES = {
    path.parent.name: nox.project.load_toml(path)
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
}
HEADERS = sysconfig.get_path("include")  # Debian keeps them in a package of its own
GROUPS = nox.project.load_toml(ROOT / "pyproject.toml")["dependency-groups"]
BY_PACKAGE = nox.parametrize("package", [nox.param(name, id=name) for name in PACKAGES])
BENCHMARKS = sorted(path.parent.name for path in ROOT.glob("benchmarks/*/__main__.py"))
WITH_RANKS = [name for name in PACKAGES if (ROOT / "packages" / name / "tests/ranks").is_dir()]

nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests"]


def requirement_name(requirement: str) -> str:
    """The distribution that a requirement such as `tnt-comm>=0.1,<0.2` names."""
    return re.split(r"[^\w.-]", requirement)[0]


def local_closure(package: str) -> list[str]:
    """The package and every sibling it needs, dependencies first."""
    needs = []
    for requirement in PACKAGES[package]["project"].get("dependencies", []):
        if requirement_name(requirement) in PACKAGES:
            needs += local_closure(requirement_name(requirement))
    return list(dict.fromkeys([*needs, package]))


def requirements(*groups: str, packages: Iterable[str] = ()) -> list[str]:
    """Requirements of groups of the root, and of the same groups of packages that have them."""
    tables = [GROUPS, *(PACKAGES[name].get("dependency-groups", {}) for name in packages)]
    return [line for table in tables for group in groups for line in table.get(group, [])]


def install(session: nox.Session, packages: Iterable[str], *others: str) -> None:
    """Install packages of the tree and others from the index into the session's environment."""
    session.env["PYTHONPATH"] = None  # it holds nox itself, see README
    names = list(packages)
    if any(map(extends_python, names)) and not Path(HEADERS, "Python.h").is_file():
        folder = ROOT / ".nox" / f"headers-{sys.implementation.cache_tag}"
        session.run("python", "tools/python_headers.py", str(folder))
        session.env["CMAKE_ARGS"] = f"-DPython_INCLUDE_DIR={folder}"
    session.install(*(f"./packages/{name}" for name in names), *others)


def extends_python(package: str) -> bool:
    """Whether building a package compiles against the headers of Python."""
    return any("pybind11" in need for need in PACKAGES[package]["build-system"]["requires"])


# ---- the checks, each on an environment that has what it needs ----


def check_style(session: nox.Session) -> None:
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    for check in ("check_layers", "check_versions", "check_docstrings"):
        session.run("python", f"tools/{check}.py")
    sources = [p for p in ROOT.glob("packages/*/cpp/**/*") if p.suffix in (".h", ".hpp", ".cpp")]
    if sources:
        session.run("clang-format", "--dry-run", "--Werror", *map(str, sorted(sources)))


def check_types(session: nox.Session) -> None:
    session.run("mypy", *(f"packages/{package}/src" for package in PACKAGES), "tools", "benchmarks")


def run_pytest(session: nox.Session, *arguments: str) -> None:
    """Run pytest, and keep the counts of its tests for the summary of `tests`."""
    reports = Path(session.virtualenv.location) / "reports"
    number = len(list(reports.glob("*.xml")))
    report = f"--junit-xml={reports / f'{number:03d}.xml'}"
    session.run("python", "-m", "pytest", "-q", report, *arguments)


def count_tests(session: nox.Session) -> dict[str, int]:
    """Sum over all pytest runs of the session: tests, failures, errors, skipped."""
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for report in Path(session.virtualenv.location).glob("reports/*.xml"):
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            for key in totals:
                totals[key] += int(suite.get(key, 0))
    return totals


def find_googletest(session: nox.Session) -> str | None:
    """Prefix of GoogleTest, fetched if need be; None where there is no way to have it."""
    folder = str(ROOT / ".nox/googletest")
    try:
        found = session.run("python", "tools/googletest.py", folder, silent=True)
    except CommandFailed:
        return None
    return str(found).strip().splitlines()[-1]


def run_cpp_tests(session: nox.Session, preset: str, googletest: str) -> None:
    """Configure, build and test tnt-comm's C++ with one of its CMake presets."""
    with session.chdir(ROOT / "packages/tnt-comm"):
        session.run("cmake", "--preset", preset, f"-DCMAKE_PREFIX_PATH={googletest}")
        session.run("cmake", "--build", "--preset", preset, "--parallel", "2")
        session.run("ctest", "--preset", preset, "--output-on-failure")


NO_GOOGLETEST = "GoogleTest not found, so the C++ tests cannot run here: apt install libgtest-dev"

# ---- sessions ----


@nox.session
def lint(session: nox.Session) -> None:
    """Style, layers between packages, versions, docstrings."""
    install(session, [], *requirements("lint"))
    check_style(session)


@nox.session
def types(session: nox.Session) -> None:
    """Check every package with mypy --strict."""
    install(session, PACKAGES, *requirements("types", "test"))
    check_types(session)


@nox.session
@BY_PACKAGE
def unit(session: nox.Session, package: str) -> None:
    """Unit tests of one package, installed with only the siblings it names."""
    install(session, local_closure(package), *requirements("test", packages=[package]))
    run_pytest(session, f"packages/{package}/tests/unit", *session.posargs)


@nox.session
@nox.parametrize("preset", [nox.param(name, id=name) for name in ("dev", "asan", "tsan")])
def cpp(session: nox.Session, preset: str) -> None:
    """C++ tests of tnt-comm, plain or with a sanitizer."""
    install(session, [], *requirements("cpp"))
    googletest = find_googletest(session)
    if googletest is None:
        session.error(NO_GOOGLETEST)
    run_cpp_tests(session, preset, googletest)


@nox.session
@nox.parametrize("package", [nox.param(name, id=name) for name in WITH_RANKS])
def ranks(session: nox.Session, package: str) -> None:
    """Tests of one package that start several ranks on this host."""
    install(session, local_closure(package), *requirements("test", packages=[package]))
    run_pytest(session, f"packages/{package}/tests/ranks", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Every check, in one environment: what the README's test command runs."""
    begin = time.monotonic()
    groups = ("lint", "types", "test", "models", "cpp")
    install(session, PACKAGES, *requirements(*groups, packages=PACKAGES))
    shutil.rmtree(Path(session.virtualenv.location) / "reports", ignore_errors=True)

    googletest = find_googletest(session)
    checks = all_checks(session, googletest)
    failed = [title for title, step in checks if not passes(session, title, step)]
    counts = count_tests(session)
    bad = counts["failures"] + counts["errors"]
    passed = counts["tests"] - bad - counts["skipped"]
    if googletest is None:
        print(NO_GOOGLETEST, flush=True)
    if failed:
        print("failed: " + ", ".join(failed), flush=True)
    minutes = (time.monotonic() - begin) / 60
    summary = f"{bad} failed, {passed} passed, {counts['skipped']} skipped in {minutes:.1f} minutes"
    print(f"==== {summary} ====", flush=True)
    if failed:
        session.error(f"{len(failed)} checks failed")


def all_checks(
    session: nox.Session, googletest: str | None
) -> list[tuple[str, Callable[[], None]]]:
    """The checks of `tests` by title, quick ones first."""
    checks: list[tuple[str, Callable[[], None]]] = [
        ("style", lambda: check_style(session)),
        ("types", lambda: check_types(session)),
    ]
    if googletest is not None:
        checks.append(("C++ tests", lambda: run_cpp_tests(session, "dev", googletest)))
    folders = [f"packages/{name}/tests/{kind}" for kind in ("unit", "ranks") for name in PACKAGES]
    folders += ["tests/tools", "tests/contract", "models", "tests/docs", "tests/bench"]
    folders += ["tests/end_to_end"]
    for folder in folders:
        if any((ROOT / folder).rglob("test_*.py")):
            checks.append((folder, lambda folder=folder: run_pytest(session, folder)))
    return checks


def passes(session: nox.Session, title: str, step: Callable[[], None]) -> bool:
    """Run one check; a failure is reported and the next one still runs."""
    print(f"==== {title} ====", flush=True)
    try:
        step()
    except CommandFailed:
        print(f"==== {title}: FAILED ====", flush=True)
        return False
    return True


@nox.session
def train(session: nox.Session) -> None:
    """Train LeNet-5 on two ranks of this host: what the README's second command runs."""
    install(session, PACKAGES, *requirements("models"))
    arguments = session.posargs or ["-n", "2"]
    session.run("tarantella", *arguments, "--", "models/lenet5/train.py")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    install(session, PACKAGES, *requirements("docs"))
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session
def models(session: nox.Session) -> None:
    """Tests of the reference models."""
    install(session, PACKAGES, *requirements("test", "models"))
    run_pytest(session, "models", *session.posargs)


@nox.session
@nox.parametrize("benchmark", [nox.param(name, id=name) for name in BENCHMARKS])
def bench(session: nox.Session, benchmark: str) -> None:
    """Run one benchmark, with options after `--`; `allreduce` gets its peers first."""
    if benchmark == "allreduce":
        install(session, local_closure("tnt-comm"))
        session.run("python", "-m", "benchmarks.allreduce.install_peers")
    else:
        install(session, PACKAGES)
    session.run("python", "-m", f"benchmarks.{benchmark}", *session.posargs)


@nox.session
@BY_PACKAGE
def dist(session: nox.Session, package: str) -> None:
    """From sdist to wheel, into a clean environment, then import and unit tests."""
    install(session, [], *requirements("dist"))
    scratch = Path(session.create_tmp()).resolve()
    shutil.rmtree(scratch / "dist", ignore_errors=True)
    for name in local_closure(package):
        session.run("python", "-m", "build", f"packages/{name}", f"--outdir={scratch / 'dist'}")
    session.run("python", "-m", "virtualenv", "--clear", str(scratch / "clean"))
    python = str(scratch / "clean/bin/python")
    wheels = [str(wheel) for wheel in (scratch / "dist").glob("*.whl")]
    tools = requirements("test", packages=[package])
    session.run(python, "-m", "pip", "install", "--quiet", *wheels, *tools, external=True)
    session.run(python, "-c", f"import {package.replace('-', '_')}", external=True)
    session.run(python, "-m", "pytest", "-q", f"packages/{package}/tests/unit", external=True)


@nox.session
def minimum(session: nox.Session) -> None:
    """Unit tests with the oldest versions that the packages allow."""
    constraints = Path(session.create_tmp()) / "minimum.txt"
    constraints.write_text("".join(sorted(oldest_versions())), encoding="utf-8")
    install(session, PACKAGES, *requirements("test", packages=PACKAGES), f"-c{constraints}")
    for package in PACKAGES:
        run_pytest(session, f"packages/{package}/tests/unit")


def oldest_versions() -> set[str]:
    """The lower bound of every requirement outside the tree, as pip constraints."""
    bounds = set()
    for project in PACKAGES.values():
        for requirement in project["project"].get("dependencies", []):
            bound = re.search(r">=\s*([\w.]+)", requirement)
            if bound and requirement_name(requirement) not in PACKAGES:
                bounds.add(f"{requirement_name(requirement)}=={bound.group(1)}\n")
    return bounds
