"""The tables of rooms that people read in CONTRIBUTING.md are the contracts of import-linter."""

import itertools
import re
import sys
from pathlib import Path

import pytest

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
