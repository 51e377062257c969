"""The versions that are tested, documented, required and known are the same."""

import ast
import re
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tnt_data.tensorflow_private import KNOWN_VERSIONS
from tnt_keras.keras_hooks import private, private_tensorflow

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/versions.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (2\.\d+) \| (3\.\d+) \| (3\.\d+) to (3\.\d+) \|", re.MULTILINE)
ROWS = ROW.findall(PAGE)
TNT_KERAS = tomllib.loads((ROOT / "packages/tnt-keras/pyproject.toml").read_text())["project"]


def table_of_session():
    """The table of the session, which need not be imported."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    [value] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KERAS_OF"
    ]
    return ast.literal_eval(value)


def minors(first, last):
    """All versions from one to another of the same major version."""
    major, begin = first.split(".")
    return [f"{major}.{minor}" for minor in range(int(begin), int(last.split(".")[1]) + 1)]


def test_the_page_lists_what_the_session_runs():
    pairs = [(tensorflow, keras) for tensorflow, row in table_of_session().items() for keras in row]
    assert [(tensorflow, keras) for tensorflow, keras, *_ in ROWS] == pairs


@pytest.mark.parametrize(("module", "column"), [(private_tensorflow, 0), (private, 1)])
def test_every_version_that_is_known_is_tested(module, column):
    bounds = [".".join(map(str, bound)) for bound in (module._GATE.oldest, module._GATE.newest)]
    assert list(dict.fromkeys(row[column] for row in ROWS)) == minors(*bounds)


def test_tnt_data_knows_the_same_versions_of_tensorflow():
    known = [".".join(map(str, version)) for version in KNOWN_VERSIONS]
    assert list(dict.fromkeys(row[0] for row in ROWS)) == known


def test_packages_require_the_versions_that_are_tested():
    extra = TNT_KERAS["optional-dependencies"]["tensorflow"][0]
    [keras] = [line for line in TNT_KERAS["dependencies"] if line.startswith("keras")]
    first, last = ROWS[0], ROWS[-1]
    after = minors(last[0], f"2.{int(last[0].split('.')[1]) + 1}")[-1]
    assert extra == f"tensorflow>={first[0]},<{after}"
    assert keras == f"keras>={first[1]},<4"


def test_every_python_that_the_packages_allow_has_a_pair():
    allowed = SpecifierSet(TNT_KERAS["requires-python"])
    named = {python for *_, first, last in ROWS for python in minors(first, last)}
    assert named == {python for python in minors("3.0", "3.30") if python in allowed}


def test_the_first_sentence_sums_the_table_up():
    names = {"TensorFlow": 0, "Keras": 1}
    for name, column in names.items():
        assert f"{name} {ROWS[0][column]} to {ROWS[-1][column]}" in PAGE
    assert f"Python {ROWS[0][2]} to {ROWS[-1][3]}" in PAGE
