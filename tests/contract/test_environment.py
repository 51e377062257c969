"""The environment is a contract of packages that share no code: written, read, documented."""

import pathlib
import re

import pytest
import write_environment

from tnt_comm.start import rank_process
from tnt_keras.process import variables as keras
from tnt_launch.planning import grammar, variables
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import LaunchSpec

ROOT = pathlib.Path(__file__).parents[2]
RANKS, SETTINGS = write_environment.read_table(ROOT)
READERS = {
    "tnt-comm": ROOT / "packages/tnt-comm/cpp/tnt/comm/base/environment.cpp",
    "tnt-keras": ROOT / "packages/tnt-keras/src/tnt_keras/process/rank.py",
}
# What C++ reads and checks later, when ranks that the launcher has not started have met.
BEFORE_RENDEZVOUS = ROOT / "packages/tnt-comm/src/tnt_comm/start/settings.py"


def test_the_tables_are_those_of_the_root():
    assert write_environment.main(["--check"]) == 0
    assert list(variables.JOB_VARIABLES) == [one["name"] for one in RANKS]
    assert [one.name for one in variables.USER_VARIABLES] == [one["name"] for one in SETTINGS]


def test_tnt_keras_knows_the_names_of_all_variables():
    """It warns of other names where there is no launcher to do so."""
    assert keras.ALL_NAMES == variables.ALL_NAMES


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("TNT_TIMEOUT", " Did you mean TNT_TIMEOUT_S?"),
        ("TNT_LOGLEVEL", " Did you mean TNT_LOG_LEVEL?"),
        ("TNT_FUSION_TRESHOLD", " Did you mean TNT_FUSION_THRESHOLD?"),
        ("TNT_PROBE", " Unset it: every step gives the serial result."),
        ("TNT_FOO", ""),
        ("TNT_", ""),
    ],
)
def test_launcher_and_tnt_keras_say_the_same_of_an_unknown_name(name, suggestion):
    (of_keras,) = keras.warnings_of_unknown([name], keras.ALL_NAMES)
    (of_launcher,) = read_settings(LaunchSpec(program=("a.py",)), {name: "1"}).warnings
    expected = (
        f"{name} is not a variable of Tarantella and has no effect on it.{suggestion} "
        "[unknown-variable]"
    )
    assert of_keras == of_launcher == expected


@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one["name"])
def test_launcher_and_tnt_keras_have_the_kind_and_the_default_of_the_table(one):
    variable = getattr(variables, write_environment.python_name(one))
    assert variable.default == one.get("default")
    if variable.default is not None:
        value = variable.read(variable.kind.write(variable.default))
        assert value == variable.default
    if isinstance(variable.kind, grammar.Word):
        assert list(variable.kind.words) == one["words"]
    if "tnt-keras" in one["read_by"]:
        same = getattr(keras, write_environment.python_name(one))
        assert (same.name, same.default) == (variable.name, variable.default)
        assert same.kind.rule == variable.kind.rule


@pytest.mark.parametrize("package", READERS)
def test_a_package_reads_exactly_the_variables_that_the_table_says(package):
    source = READERS[package].read_text("utf-8")
    table = {"tnt-comm": RANKS + SETTINGS, "tnt-keras": SETTINGS}[package]
    name_of = {"tnt-comm": write_environment.cpp_name, "tnt-keras": write_environment.python_name}
    names = {name_of[package](one): package in one["read_by"] for one in table}
    found = {name: re.search(rf"\b{name}\b", source) is not None for name in names}
    assert found == names


@pytest.mark.parametrize("package", READERS)
def test_one_file_of_a_package_reads_the_environment(package):
    """Tests and the starting of ranks write variables; only `TNT_` names that are read count."""
    lookups = re.compile(r'(?:getenv\(|environ(?:\.get\(|\[))\s*"TNT_')
    sources = [*ROOT.glob(f"packages/{package}/cpp/tnt/**/*.[ch]pp")]
    sources += ROOT.glob(f"packages/{package}/src/**/*.py")
    others = [path for path in sources if path not in (READERS[package], BEFORE_RENDEZVOUS)]
    assert others
    assert [path.name for path in others if lookups.search(path.read_text("utf-8"))] == []


def test_all_that_describes_a_rank_is_forgotten_in_another_job():
    described = {one["name"] for one in RANKS}
    assert {*rank_process._OF_RANK} == described | {"TNT_RENDEZVOUS"}
