"""Unit tests run from the sdist of their package: what they use of the tree is copied there."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import PACKAGES, ROOT

CONFTEST = ROOT / "tests/process_of_tests.py"
OF_THE_TREE = {
    path.stem for place in ("tests", "tools", "benchmarks") for path in ROOT.glob(f"{place}/*.py")
}


def imported(file):
    """Names of modules that a file imports, without their parts."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def modules_to_copy(package):
    """Modules of the tree that the unit tests of a package import, with the folder for a copy."""
    folder = ROOT / "packages" / package / "tests"
    used = {name for file in folder.glob("unit/**/*.py") for name in imported(file)}
    own = {file.stem for file in folder.glob("ranks/*.py")}
    return sorted(ROOT / f"tests/{name}.py" for name in used & OF_THE_TREE - own)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_unit_tests_use_of_the_tree_lies_beside_them(package):
    units = ROOT / "packages" / package / "tests/unit"
    copies = {units / file.name: file for file in modules_to_copy(package)}
    copies[units / "conftest.py"] = CONFTEST
    for copy, file in copies.items():
        command = f"cp {file.relative_to(ROOT)} {copy.relative_to(ROOT)}"
        assert copy.is_file(), f"write the copy: {command}"
        assert copy.read_bytes() == file.read_bytes(), f"write the copy again: {command}"
    beside = {path for path in units.glob("*.py") if (ROOT / "tests" / path.name).exists()}
    assert sorted(beside - set(copies)) == [], "copies that no unit test uses"


def test_modules_of_the_tree_are_found_in_unit_tests():
    assert modules_to_copy("tnt-data") == [ROOT / "tests/cases.py"]
    assert modules_to_copy("tnt-launch") == []


TEST = """
import pytest
from hypothesis import settings

def test_of_a_profile():
    assert (settings.default.deadline, settings.default.max_examples) == (None, 25)

@pytest.mark.thorough
def test_of_the_long_tail():
    raise AssertionError
"""


@pytest.mark.parametrize("root", ["", 'pytest_plugins = ["process_of_tests"]'])
def test_marks_and_profiles_are_known_with_and_without_the_tree(tmp_path, root):
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "conftest.py").write_text(root)
    (tmp_path / "tests/unit/conftest.py").write_bytes(CONFTEST.read_bytes())
    (tmp_path / "tests/unit/test_alone.py").write_text(TEST)
    options = ["-q", "--strict-markers", "--hypothesis-profile=short", "-m", "not thorough"]
    folders = [] if root else ["tests/unit"]  # in the tree it may be found after the options
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *folders],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(CONFTEST).parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 deselected" in done.stdout
