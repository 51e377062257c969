"""Where tensorflow-cpu is wanted nothing brings tensorflow; the usual installation is complete."""

import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
TABLES = {
    path.parent.name: tomllib.loads(path.read_text(encoding="utf-8"))
    for path in ROOT.glob("packages/*/pyproject.toml")
}
PROJECTS = {name: table["project"] for name, table in TABLES.items()}
TENSORFLOWS = {"tensorflow", "tensorflow-cpu"}


def required(package, *extras):
    """Names of all distributions that pip takes with a package of the tree and its extras."""
    project = PROJECTS[package]
    lines = [*project["dependencies"]]
    lines += [line for extra in extras for line in project["optional-dependencies"][extra]]
    found = set()
    for requirement in map(Requirement, lines):
        found.add(requirement.name)
        if requirement.name in PROJECTS:
            found |= required(requirement.name, *requirement.extras)
    return found


@pytest.mark.parametrize("package", sorted({*PROJECTS} - {"tarantella"}))
def test_no_part_requires_tensorflow_by_itself(package):
    assert not TENSORFLOWS & required(package)


@pytest.mark.parametrize("package", ["tnt-data", "tnt-keras"])
@pytest.mark.parametrize("extra", sorted(TENSORFLOWS))
def test_an_extra_brings_its_tensorflow_and_not_the_other_one(package, extra):
    assert TENSORFLOWS & required(package, extra) == {extra}


def test_all_extras_allow_the_same_versions():
    extras = [PROJECTS[name]["optional-dependencies"] for name in ("tnt-data", "tnt-keras")]
    lines = [line for table in extras for name in TENSORFLOWS for line in table[name]]
    assert len(lines) == 4
    assert len({Requirement(line).specifier for line in lines}) == 1


def test_the_whole_brings_all_parts_and_tensorflow():
    parts = {*PROJECTS} - {"tarantella"}
    assert {*parts, "tensorflow", "keras"} <= required("tarantella")


@pytest.mark.parametrize("package", sorted(PROJECTS))
def test_a_package_says_what_an_index_shows(package):
    project = PROJECTS[package]
    for field in ("authors", "classifiers", "description", "license", "readme", "urls"):
        assert project[field], field
    assert project["license-files"] == ["LICENSE"]
    own = ROOT / "packages" / package / "LICENSE"
    assert own.read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("package", sorted(PROJECTS))
def test_a_package_says_what_its_tests_need_as_the_tree_says_it(package):
    tree = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = PROJECTS[package].get("optional-dependencies", {})
    known = {
        *tree["dependency-groups"]["test"],
        *(line for each in extras.values() for line in each),
    }
    lines = TABLES[package]["dependency-groups"]["test"]
    assert [line for line in lines if line not in known] == []
    assert {"pytest", "pytest-timeout", "hypothesis"} <= {Requirement(line).name for line in lines}
