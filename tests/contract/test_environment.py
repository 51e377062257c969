"""The environment is a contract of packages that share no code: written, read, documented."""

import pathlib
import re

import pytest

from tnt_keras.process import set_up
from tnt_keras.process.set_up import KNOWN_NAMES, warn_of_unknown_names
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import (
    ALL_NAMES,
    NAMES_OF_TUTORIALS,
    USER_VARIABLES,
    Boolean,
    HostAndPort,
    Integer,
    IntegerOrAuto,
    Path,
    Seconds,
    Text,
    Word,
)

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/environment.md"
READERS = {
    "tnt-comm": ROOT / "packages/tnt-comm/cpp/tnt/comm/base/environment.cpp",
    "tnt-keras": ROOT / "packages/tnt-keras/src/tnt_keras/process/environment.py",
}
KINDS = {
    Boolean: "boolean",
    HostAndPort: "`host:port`",
    IntegerOrAuto: "`auto`",
    Path: "path",
    Seconds: "seconds",
    Text: "text",
}
QUOTED = re.compile(r'"(TNT_[A-Z0-9_]+)"')
ROW = re.compile(r"^\| `(TNT_\w+)` \|.*$", re.MULTILINE)


def read_by(package):
    return set(QUOTED.findall(READERS[package].read_text(encoding="utf-8")))


def documented_readers():
    """Variables of the reference page, each with the packages of its column `read by`."""
    readers, column = {}, None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| variable"):
            column = cells.index("read by")
        elif ROW.match(line):
            readers[cells[0].strip("`")] = set(cells[column].split(", "))
    return readers


def test_the_page_documents_exactly_the_variables_that_the_launcher_writes():
    assert set(documented_readers()) == set(ALL_NAMES)


def test_tnt_keras_knows_the_names_of_all_variables():
    """It warns of other names where there is no launcher to do so."""
    assert sorted(KNOWN_NAMES) == sorted(ALL_NAMES)
    assert set_up.NAMES_OF_TUTORIALS == NAMES_OF_TUTORIALS


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("TNT_TIMEOUT", " Did you mean TNT_TIMEOUT_S?"),
        ("TNT_LOGLEVEL", " Did you mean TNT_LOG_LEVEL?"),
        ("TNT_FUSION_TRESHOLD", " Did you mean TNT_FUSION_THRESHOLD?"),
        ("TNT_FOO", ""),
        ("TNT_", ""),
    ],
)
def test_launcher_and_tnt_keras_say_the_same_of_an_unknown_name(name, suggestion, caplog):
    warn_of_unknown_names([name])
    (of_launcher,) = read_settings(LaunchSpec(program=("a.py",)), {name: "1"}).warnings
    assert caplog.messages == [of_launcher]
    assert (
        of_launcher
        == f"{name} is not a variable of Tarantella and has no effect on it.{suggestion}"
    )


@pytest.mark.parametrize("package", READERS)
def test_every_variable_that_is_read_is_written_by_the_launcher(package):
    assert read_by(package) - set(ALL_NAMES) == set()


@pytest.mark.parametrize("package", READERS)
def test_the_page_names_the_package_that_reads_a_variable(package):
    documented = {name for name, readers in documented_readers().items() if package in readers}
    assert documented == read_by(package)


@pytest.mark.parametrize("variable", USER_VARIABLES, ids=lambda variable: variable.name)
def test_the_page_tells_readers_and_values_of_the_table(variable):
    assert documented_readers()[variable.name] == set(variable.readers or ["nothing"])
    (row,) = (row for row in ROW.finditer(PAGE.read_text("utf-8")) if row[1] == variable.name)
    value = row[0].split("|")[2]
    if isinstance(variable.kind, Word):
        assert tuple(re.findall(r"`(\w+)`", value)) == variable.kind.choices
    elif isinstance(variable.kind, Integer):
        limits = [variable.kind.minimum, variable.kind.maximum]
        assert re.findall(r"\d+", value) == [str(limit) for limit in limits if limit is not None]
    else:
        assert KINDS[type(variable.kind)] in value


def test_every_variable_is_documented_once():
    names = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(names) == len(set(names))


@pytest.mark.parametrize("package", READERS)
def test_one_file_of_a_package_reads_the_environment(package):
    """Tests and the starting of ranks write variables; only `TNT_` names that are read count."""
    lookups = re.compile(r'(?:getenv\(|environ(?:\.get\(|\[))\s*"TNT_')
    sources = [*ROOT.glob(f"packages/{package}/cpp/tnt/**/*.[ch]pp")]
    sources += ROOT.glob(f"packages/{package}/src/**/*.py")
    others = [path for path in sources if path != READERS[package]]
    assert others
    assert [path.name for path in others if lookups.search(path.read_text("utf-8"))] == []
