"""What people read in CONTRIBUTING.md of rooms, layers and ways through the code is so."""

import itertools
import re
import sys
from pathlib import Path

import pytest
from check_layers import INCLUDES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGES = ["tnt-keras", "tnt-data", "tnt-launch"]
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]
CONTRACTS = {
    contract["name"]: contract
    for contract in LINTER["contracts"]
    if contract["name"].startswith("Rooms of ")
}


def rows_of_table(package):
    """The names in each row of the table below "Rooms of <package>:"."""
    table = re.search(rf"^Rooms of {package}:\n\n((?:\|.*\n)+)", TEXT, re.MULTILINE).group(1)
    return [re.findall(r"`([\w.]+)`", row.split("|")[1]) for row in table.splitlines()[2:]]


def test_each_package_with_rooms_has_a_contract_and_a_table():
    tables = re.findall(r"^Rooms of (.*):$", TEXT, re.MULTILINE)
    assert {f"Rooms of {package.replace('-', '_')}" for package in tables} == set(CONTRACTS)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_row_of_the_table_is_a_layer_of_the_contract(package):
    contract = CONTRACTS[f"Rooms of {package.replace('-', '_')}"]
    rows = [{name.removesuffix(".py") for name in row} for row in rows_of_table(package)]
    assert rows == [set(layer.split(" | ")) for layer in contract["layers"]]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_of_the_table_is_a_folder_unless_it_ends_in_py(package):
    source = ROOT / "packages" / package / "src" / package.replace("-", "_")
    for name in itertools.chain(*rows_of_table(package)):
        assert (source / name).exists(), name
        assert (source / name).is_file() == name.endswith(".py"), name


def test_the_table_of_tnt_comm_has_the_layers_that_are_checked():
    table = re.search(r"^Layers of tnt-comm.*:\n\n((?:\|.*\n)+)", TEXT, re.MULTILINE).group(1)
    first_cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    assert sorted(re.findall(r"`(\w+)`", " ".join(first_cells))) == sorted(INCLUDES)


def steps_of_drawn_ways():
    """A file without suffix and a name in it, for all that the drawings name."""
    for drawing in re.findall(r"^```text\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL):
        for file, names in re.findall(r"(\w+(?:/\w+)+)(?:\.py)? {2,}([\w, ]+)", drawing):
            yield from ((file, name.strip()) for name in names.split(","))


@pytest.mark.parametrize(("file", "name"), [*steps_of_drawn_ways()])
def test_a_step_of_a_drawn_way_is_where_it_is_said_to_be(file, name):
    sources = [*ROOT.glob("packages/*/src/**/*.py"), *ROOT.glob("packages/*/cpp/**/*.?pp")]
    named = [path for path in sources if f"/{path.with_suffix('')}".endswith(f"/{file}")]
    texts = [path.read_text(encoding="utf-8") for path in named]
    assert any(re.search(rf"\b{name}\b", text) for text in texts), named


def test_a_file_that_is_named_exists():
    known = {path.name for path in ROOT.glob("*.*")}
    for folder in ("packages", "tests", "tools", "docs", "models"):
        known |= {path.name for path in (ROOT / folder).rglob("*.*") if "build" not in path.parts}
    named = re.findall(r"`[\w/.-]*?([\w-]+\.(?:py|cpp|hpp|h|c|md|toml|txt))`", TEXT)
    assert len(named) > 50
    assert {name for name in named if name not in known} == set()
