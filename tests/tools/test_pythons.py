"""Pythons are found where they are, and one that is missing is named."""

import sys

import pytest
import pythons

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def nothing_found(monkeypatch, tmp_path):
    """PATH and pyenv's folder are empty."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def write_python(path, minor=MINOR):
    """A program that answers as an interpreter of that version does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nprint('{minor}')\n")
    path.chmod(0o755)
    return path


def test_minor_versions_are_those_that_the_packages_take():
    assert pythons.MINORS == ["3.10", "3.11", "3.12", "3.13"]


def test_an_interpreter_on_path_is_found(nothing_found):
    expected = write_python(nothing_found / "bin/python3.12", "3.12")
    assert pythons.find_python("3.12") == expected


def test_a_shim_without_a_python_behind_it_is_passed_over(nothing_found):
    shim = nothing_found / "bin/python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    expected = write_python(nothing_found / "pyenv/versions/3.12.1/bin/python3.12", "3.12")
    assert pythons.find_python("3.12") == expected


def test_an_interpreter_of_another_version_is_not_taken(nothing_found):
    write_python(nothing_found / "bin/python3.12", "3.9")
    assert pythons.find_python("3.12") is None


def test_one_that_is_missing_is_named_with_what_to_do(nothing_found, capsys):
    there = write_python(nothing_found / "bin/python3.11", "3.11")
    assert pythons.find_pythons(["3.11", "3.13"]) == {"3.11": there}
    said = capsys.readouterr().out
    assert "Python 3.13 is not found here: put it on PATH as python3.13" in said
    assert "3.11" not in said
