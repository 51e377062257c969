"""The header of a file of results says how to repeat the run, and with which sources."""

import subprocess
import sys

import pytest

from benchmarks.records import commit_of, make_header, read_sections, write_rows


@pytest.fixture
def commit(tmp_path):
    """A repository with one file; returns the hash of its commit."""

    def git(*words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        finished = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        return finished.stdout.strip()

    git("init")
    (tmp_path / "file").write_text("committed", encoding="utf-8")
    git("add", "file")
    git("commit", "--no-gpg-sign", "-m", "first")
    return git("rev-parse", "--short=8", "HEAD")


def test_the_commit_is_that_of_the_working_tree(commit, tmp_path):
    assert commit_of(tmp_path) == commit
    (tmp_path / "new").write_text("not tracked", encoding="utf-8")
    assert commit_of(tmp_path) == commit
    (tmp_path / "file").write_text("changed", encoding="utf-8")
    assert commit_of(tmp_path) == f"{commit}-dirty"


def test_outside_of_git_the_commit_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) == "unknown"


def test_the_command_can_be_run_again(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/__main__.py", "--models", "a b", "--rounds", "3"])
    header = make_header("training", {}, {})
    assert header["command"] == "python -m benchmarks.training --models 'a b' --rounds 3"


def test_each_header_has_the_rows_below_it(tmp_path):
    file = tmp_path / "rows.jsonl"
    first, second = {"benchmark": "a", "cores": 1}, {"benchmark": "a", "cores": 2}
    write_rows(file, [first, {"row": 1}, {"row": 2}, second, {"row": 3}])
    assert read_sections(file) == [(first, [{"row": 1}, {"row": 2}]), (second, [{"row": 3}])]
