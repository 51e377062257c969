"""No folder with sources has a name that git or a tool leaves out without a word."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ["packages/*/[!.]*", "tests", "tools", "benchmarks", "models", "docs"]
SUFFIXES = {".py", ".pyi", ".cpp", ".hpp", ".h", ".cmake"}
OF_TOOLS = {"CVS", "_darcs", "buck-out", "build", "dist", "node_modules", "site-packages", "venv"}
"""What ruff and pytest leave out by default; hatchling goes by .gitignore."""


def names_left_out(root):
    """Names of folders in .gitignore and in the defaults of tools."""
    lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    return OF_TOOLS | {line[:-1] for line in lines if re.fullmatch(r"[\w.-]+/", line)}


def hidden_sources(root):
    """Files with sources below a folder that is left out; packages/*/build are real builds."""
    names = names_left_out(root)
    built = {*root.glob("packages/*/build"), *root.glob("packages/*/dist")}
    folders = {path for place in PLACES for path in root.glob(place)} - built
    files = (file.relative_to(root) for folder in folders for file in folder.rglob("*"))
    sources = (file for file in files if file.suffix in SUFFIXES)
    return sorted(str(file) for file in sources if names.intersection(file.parts[:-1]))


def test_no_source_of_this_tree_is_left_out():
    assert hidden_sources(ROOT) == []


@pytest.mark.parametrize(
    "file",
    [
        "packages/part/src/part/build/module.py",
        "packages/part/cpp/dist/header.hpp",
        "packages/part/tests/venv/test_module.py",
        "tests/logs/test_log.py",
    ],
)
def test_a_source_that_is_left_out_is_found(tmp_path, file):
    (tmp_path / ".gitignore").write_text("# Builds\nbuild/\n*.so\ndocs/_build/\nlogs/\n")
    for name in (file, "packages/part/build/cp311/made.cpp", "tests/unit/test_module.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert hidden_sources(tmp_path) == [file]
