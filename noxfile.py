"""Everything that can be run on this tree, one session each: `python -m nox --list`.

Packages are found in packages/, so that a new one needs no line here. A session installs what it
needs from the tree in one pip call: siblings then never come from an index. What it compiles lies
in packages/*/build and is taken from there the next time.
"""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterable
from pathlib import Path

import nox
from nox.command import CommandFailed
from packaging.requirements import Requirement

ROOT = Path(__file__).parent
PACKAGES = {
    path.parent.name: nox.project.load_toml(path)
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
}
HEADERS = sysconfig.get_path("include")  # Debian keeps them in a package of its own
LEAN_MODELS = ("models", "models-translation")  # groups that the models' short tests need
GROUPS = nox.project.load_toml(ROOT / "pyproject.toml")["dependency-groups"]
BY_PACKAGE = nox.parametrize("package", [nox.param(name, id=name) for name in PACKAGES])
BENCHMARKS = sorted(path.parent.name for path in ROOT.glob("benchmarks/*/__main__.py"))
BUILD_FOLDER = f"build/{sys.implementation.cache_tag}"  # below each package that is compiled
WITH_RANKS = [name for name in PACKAGES if (ROOT / "packages" / name / "tests/ranks").is_dir()]
# Each TensorFlow with the Keras of its time; docs/reference/versions.md says more.
KERAS_OF = {
    "2.18": ["3.8"],
    "2.19": ["3.9", "3.10"],
    "2.20": ["3.11", "3.12", "3.13"],
    "2.21": ["3.14", "3.15"],
}
WITHOUT_LONG_TAIL = ["-m", "not thorough", "--hypothesis-profile=short"]  # options of pytest

nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests"]


def needs_of(package: str) -> list[str]:
    """Return what a package requires at run time, TensorFlow under its usual name included."""
    project = PACKAGES[package]["project"]
    extras = project.get("optional-dependencies", {})
    return [*project.get("dependencies", []), *extras.get("tensorflow", [])]


def local_closure(package: str) -> list[str]:
    """Return the package and every sibling it needs, dependencies first."""
    needs = []
    for requirement in map(Requirement, needs_of(package)):
        if requirement.name in PACKAGES:
            needs += local_closure(requirement.name)
    return list(dict.fromkeys([*needs, package]))


def uses_tensorflow(package: str) -> bool:
    """Whether TensorFlow is among the requirements of a package or of the siblings it needs."""
    needs = [line for name in local_closure(package) for line in needs_of(name)]
    return any(Requirement(line).name == "tensorflow" for line in needs)


def requirements(*groups: str, packages: Iterable[str] = ()) -> list[str]:
    """Return requirements of groups of the root, and of the same groups of packages."""
    tables = [GROUPS, *(PACKAGES[name].get("dependency-groups", {}) for name in packages)]
    return [line for table in tables for group in groups for line in table.get(group, [])]


def install(session: nox.Session, packages: Iterable[str], *others: str) -> None:
    """Install packages of the tree and others from the index into the session's environment.

    What builds the packages comes first: they are built in this environment and not in one of
    their own, so that nothing is fetched twice and CMake finds what it has compiled before.
    """
    session.env["PYTHONPATH"] = None  # it holds nox itself, see README
    # Python compiles what is imported, a third of all files; pip would compile every one.
    session.env["PYTHONDONTWRITEBYTECODE"] = None
    names = list(packages)
    if any(map(extends_python, names)) and not Path(HEADERS, "Python.h").is_file():
        folder = ROOT / ".nox" / f"headers-{sys.implementation.cache_tag}"
        session.run("python", "tools/python_headers.py", str(folder))
        session.env["CMAKE_ARGS"] = f"-DPython_INCLUDE_DIR={folder}"
    if not names:
        session.install("--no-compile", *others)
        return
    tools = {need for name in names for need in PACKAGES[name]["build-system"]["requires"]}
    session.install("--no-compile", *sorted(tools), *requirements("cpp"))
    session.env["SKBUILD_BUILD_DIR"] = BUILD_FOLDER
    session.env["SKBUILD_CMAKE_DEFINE"] = "TNT_COMM_WERROR=ON"
    paths = [f"./packages/{name}{extra_of(name)}" for name in names]
    session.install("--no-compile", "--no-build-isolation", *paths, *others)


def extra_of(package: str) -> str:
    """Return the extra that brings TensorFlow, in brackets, if the package has it."""
    extras = PACKAGES[package]["project"].get("optional-dependencies", {})
    return "[tensorflow]" if "tensorflow" in extras else ""


def extends_python(package: str) -> bool:
    """Whether building a package compiles against the headers of Python."""
    return any("pybind11" in need for need in PACKAGES[package]["build-system"]["requires"])


# ---- the checks, each on an environment that has what it needs ----


def style_commands() -> list[list[str]]:
    """Style, layers, versions, and the tables of variables."""
    sources = [p for p in ROOT.glob("packages/*/cpp/**/*") if p.suffix in (".h", ".hpp", ".cpp")]
    return [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["lint-imports"],
        ["python", "tools/check_layers.py"],
        ["python", "tools/check_versions.py"],
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


def find_googletest(session: nox.Session) -> str | None:
    """Prefix of GoogleTest, fetched if need be; None where there is no way to have it."""
    folder = str(ROOT / ".nox/googletest")
    try:
        found = session.run("python", "tools/googletest.py", folder, silent=True)
    except CommandFailed:
        return None
    return str(found).strip().splitlines()[-1]


def cpp_commands(googletest: str, report: Path) -> list[list[str]]:
    """Build and run tnt-comm's C++ tests in the folder where its wheel was built just before."""
    folder = f"packages/tnt-comm/{BUILD_FOLDER}"
    options = ["-DTNT_COMM_BUILD_TESTS=ON", f"-DGTest_ROOT={googletest}"]
    run = ["ctest", "--test-dir", folder, "--parallel", "4", "--quiet"]
    return [
        ["cmake", "-S", "packages/tnt-comm", "-B", folder, *options],
        ["cmake", "--build", folder, "--parallel", "2"],
        [*run, "--output-junit", str(report)],
    ]


NO_GOOGLETEST = "GoogleTest not found, so the C++ tests cannot run here: apt install libgtest-dev"

# ---- sessions ----


@nox.session
def lint(session: nox.Session) -> None:
    """Style, layers between packages and their rooms, versions."""
    install(session, [], *requirements("lint"))
    session.env["PYTHONPATH"] = ":".join(f"packages/{name}/src" for name in PACKAGES)
    for command in style_commands():
        session.run(*command)


@nox.session
def types(session: nox.Session) -> None:
    """Check every package with mypy --strict."""
    install(session, PACKAGES, *requirements("types", "test"))
    for command in types_commands():
        session.run(*command)


@nox.session
@BY_PACKAGE
def unit(session: nox.Session, package: str) -> None:
    """Run the unit tests of one package, installed with only the siblings it names."""
    install(session, local_closure(package), *requirements("test", packages=[package]))
    session.run("pytest", "-q", f"packages/{package}/tests/unit", *session.posargs)


@nox.session
@nox.parametrize("preset", [nox.param(name, id=name) for name in ("dev", "asan", "tsan")])
def cpp(session: nox.Session, preset: str) -> None:
    """C++ tests of tnt-comm, plain or with a sanitizer."""
    install(session, [], *requirements("cpp"))
    googletest = find_googletest(session)
    if googletest is None:
        session.error(NO_GOOGLETEST)
    with session.chdir(ROOT / "packages/tnt-comm"):
        session.run("cmake", "--preset", preset, f"-DCMAKE_PREFIX_PATH={googletest}")
        session.run("cmake", "--build", "--preset", preset, "--parallel", "2")
        session.run("ctest", "--preset", preset, "--output-on-failure")


@nox.session
@nox.parametrize("package", [nox.param(name, id=name) for name in WITH_RANKS])
def ranks(session: nox.Session, package: str) -> None:
    """Run the tests of one package that start several ranks on this host."""
    install(session, local_closure(package), *requirements("test", packages=[package]))
    session.run("pytest", "-q", f"packages/{package}/tests/ranks", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Every check but the long tail, in one environment: what the README's test command runs."""
    run_all(session, *WITHOUT_LONG_TAIL)


@nox.session
def thorough(session: nox.Session) -> None:
    """Every check with the long tail, then sanitizers, every wheel and the oldest versions."""
    others = ("cpp(asan)", "cpp(tsan)", f"compat(tf-{next(iter(KERAS_OF))})")
    for name in (*others, *(f"dist({name})" for name in PACKAGES)):
        session.notify(name)
    run_all(session, "--hypothesis-profile=thorough")


def run_all(session: nox.Session, *pytest_options: str) -> None:
    """Install everything into one environment and run all checks there, three at a time."""
    begin = time.monotonic()
    groups = ("lint", "types", "test", *LEAN_MODELS, "docs", "dist")
    install(session, PACKAGES, *requirements(*groups, packages=PACKAGES))
    googletest = find_googletest(session)
    reports = Path(session.virtualenv.location) / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    checks = Path(session.virtualenv.location) / "checks.json"
    checks.write_text(json.dumps(all_checks(reports, googletest, pytest_options)), "utf-8")
    if googletest is None:
        print(NO_GOOGLETEST, flush=True)
    before = f"--before-s={time.monotonic() - begin:.1f}"
    session.run("python", "tools/run_checks.py", str(checks), f"--reports={reports}", before)


def all_checks(
    reports: Path, googletest: str | None, pytest_options: Iterable[str]
) -> list[dict[str, object]]:
    """Return the checks of `tests` for tools/run_checks.py.

    Three run at a time, in this order: two that compute beside one that mostly waits, and at the
    end C++, which has work for both cores when the other checks run out. Deadlines are for a
    machine that is several times slower than the usual one.
    """

    def suites(title: str, folders: Iterable[str]) -> dict[str, object]:
        options = [*pytest_options, f"--junit-xml={reports / title.replace(' ', '_')}.xml"]
        command = ["python", "-m", "pytest", "-q", "--durations=15", *options, *folders]
        return {"title": title, "commands": [command], "deadline_s": 3600}

    with_tensorflow = [name for name in PACKAGES if uses_tensorflow(name)]
    plain = [f"packages/{name}/tests" for name in PACKAGES if name not in with_tensorflow]
    folders = [f"packages/{name}/tests/ranks" for name in with_tensorflow if name in WITH_RANKS]
    files = sorted(
        path.relative_to(ROOT) for each in folders for path in ROOT.glob(f"{each}/**/test_*.py")
    )
    # Three checks, so that none is still running when all others have ended.
    ranks = [
        suites(f"ranks with TensorFlow, part {first + 1}", map(str, files[first::3]))
        for first in range(3)
    ]
    units = [f"packages/{name}/tests/unit" for name in with_tensorflow]
    partitions = "packages/tnt-keras/tests/unit/partition"  # as long as all other units
    checks = [
        {"title": "style", "commands": style_commands(), "deadline_s": 600},
        suites("partitions", [partitions]),
        ranks[1],
        suites("suites without TensorFlow", [*plain, "tests/tools"]),
        ranks[2],
        # Together, since some commands of the documentation are the jobs that are looked at.
        suites("documentation and whole jobs", ["tests/docs", "tests/end_to_end"]),
        ranks[0],
        suites("units with TensorFlow", [f"--ignore={partitions}", *units, "tests/contract"]),
        suites("benchmarks and models", ["tests/bench", "models"]),
        {"title": "types", "commands": types_commands(), "deadline_s": 1200},
        {"title": "docs", "commands": [docs_command()], "deadline_s": 1200},
        {"title": "wheels", "commands": wheels_commands(reports / "wheels"), "deadline_s": 1200},
    ]
    if googletest is not None:
        commands = cpp_commands(googletest, reports / "cpp.xml")
        checks.append({"title": "C++ tests", "commands": commands, "deadline_s": 3600})
    return checks


def wheels_commands(folder: Path) -> list[list[str]]:
    """Build what needs no compiler, from sdist to wheel, look inside, import it from there."""
    pure = [name for name in PACKAGES if not is_compiled(name)]
    commands = []
    for name in pure:
        build = ["python", "-m", "build", "--no-isolation", f"--outdir={folder / name}"]
        commands += [[*build, f"packages/{name}"], contents_command(name, folder / name)]
    target = str(folder / "installed")
    install = ["python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    found = [f"--find-links={folder / name}" for name in pure]
    modules = ", ".join(name.replace("-", "_") for name in pure)
    look = f"all(one.__file__.startswith({target!r}) for one in ({modules}))"
    program = f"import sys; sys.path.insert(0, {target!r}); import {modules}; assert {look}"
    return [*commands, [*install, f"--target={target}", *found, *pure], ["python", "-c", program]]


def contents_command(package: str, wheels: Path) -> list[str]:
    """Fail if wheels lack a file of the sources, or have others than what a compiler makes."""
    compiled = ["--ignore=W102"] if is_compiled(package) else []
    return ["check-wheel-contents", *compiled, f"--src-dir=packages/{package}/src", str(wheels)]


def is_compiled(package: str) -> bool:
    """Whether the build of a package runs a compiler."""
    return str(PACKAGES[package]["build-system"]["build-backend"]) != "hatchling.build"


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
    session.run(*docs_command())


@nox.session
def models(session: nox.Session) -> None:
    """Run the tests of the reference models."""
    install(session, PACKAGES, *requirements("test", *LEAN_MODELS, "models-data"))
    session.run("pytest", "-q", "models", *session.posargs)


@nox.session
@nox.parametrize("benchmark", [nox.param(name, id=name) for name in BENCHMARKS])
def bench(session: nox.Session, benchmark: str) -> None:
    """Run one benchmark, with options after `--`; peers are installed first."""
    ucx = PACKAGES["tnt-comm"]["project"]["optional-dependencies"]["ucx"]  # between two hosts
    install(session, local_closure("tnt-comm") if benchmark == "allreduce" else PACKAGES, *ucx)
    if (ROOT / "benchmarks" / benchmark / "install_peers.py").is_file():
        session.run("python", "-m", f"benchmarks.{benchmark}.install_peers")
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
        [wheel] = (scratch / "dist").glob(f"{name.replace('-', '_')}-*.whl")
        session.run(*contents_command(name, wheel))
    session.run("python", "-m", "virtualenv", "--clear", str(scratch / "clean"))
    python = str(scratch / "clean/bin/python")
    wheels = [
        f"{wheel}{extra_of(wheel.name.partition('-')[0].replace('_', '-'))}"
        for wheel in (scratch / "dist").glob("*.whl")
    ]
    tools = requirements("test", packages=[package])
    session.run(python, "-m", "pip", "install", "--quiet", *wheels, *tools, external=True)
    session.run(python, "-c", f"import {package.replace('-', '_')}", external=True)
    session.run(python, "-m", "pytest", "-q", f"packages/{package}/tests/unit", external=True)


@nox.session
@nox.parametrize("tensorflow", [nox.param(minor, id=f"tf-{minor}") for minor in KERAS_OF])
def compat(session: nox.Session, tensorflow: str) -> None:
    """Run tests and a training with one TensorFlow and each Keras of its time.

    With the first TensorFlow everything else has its oldest version too.
    """
    is_first = tensorflow == next(iter(KERAS_OF))
    constraints = Path(session.create_tmp()) / "constraints.txt"
    lines = oldest_versions() if is_first else {f"tensorflow=={tensorflow}.*\n"}
    constraints.write_text("".join(sorted(lines)), encoding="utf-8")
    install(session, PACKAGES, *requirements("test", packages=PACKAGES), f"-c{constraints}")
    training = "tests/end_to_end/test_smallest_training.py"
    suites = [f"packages/{package}/tests/unit" for package in PACKAGES]
    suites.append("packages/tnt-keras/tests/ranks")
    for keras in KERAS_OF[tensorflow]:
        session.install("--no-compile", f"keras=={keras}.*")
        if not session.posargs:
            session.run("pytest", "-q", training)
        session.run("pytest", "-q", *WITHOUT_LONG_TAIL, *(session.posargs or suites))
    if is_first and not session.posargs:
        run_with_ucx_of_the_system(session)


def run_with_ucx_of_the_system(session: nox.Session) -> None:
    """Run the tests of clusters with the UCX of the distribution: 1.13 in Debian 12."""
    libraries = sorted(Path("/usr/lib").glob("*/libucp.so.0"))
    if not libraries:
        session.warn("UCX of the system not found, so it is not tested: apt install libucx0")
        return
    names = ("test_cluster_collectives", "test_cluster_failures", "test_ucx")
    tests = [f"packages/tnt-comm/tests/ranks/networks/{name}.py" for name in names]
    library = {"TNT_UCX_LIBRARY": str(libraries[0])}
    session.run("pytest", "-q", "-k", "ucx", *WITHOUT_LONG_TAIL, *tests, env=library)


def oldest_versions() -> set[str]:
    """Return the lower bound of every requirement outside the tree, as pip constraints."""
    needs = {line for package in PACKAGES for line in needs_of(package)}
    return {
        f"{requirement.name}=={clause.version}\n"
        for requirement in map(Requirement, needs)
        for clause in requirement.specifier
        if clause.operator == ">=" and requirement.name not in PACKAGES
    }
