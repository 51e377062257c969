"""Ranks that have ended leave a note for the others, and nothing stays when the job is over."""

import os
import stat
from pathlib import Path

import pytest

from tnt_launch.running import job_files as shared_memory
from tnt_launch.running.job_files import note_end_of_rank, remove_end_notes, remove_files_of_job


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY", tmp_path)
    return tmp_path


def test_the_note_says_how_a_rank_has_ended_to_this_user_alone(folder):
    note_end_of_rank("job0", 3, "exit code 0")
    (path,) = folder.iterdir()
    assert path.name == "tnt-job0-ended-3"
    assert path.read_text() == "exit code 0"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.fixture
def before_it_appears(monkeypatch):
    """A function that lets something happen when a note is written and has not appeared yet."""
    rename = os.rename

    def set_action(action):
        monkeypatch.setattr(os, "rename", lambda part, path: (action(part), rename(part, path)))

    return set_action


def test_the_note_appears_with_its_whole_content(folder, before_it_appears):
    content = []
    before_it_appears(lambda part: content.append(Path(part).read_text()))
    note_end_of_rank("job0", 0, "killed by SIGKILL")
    assert content == ["killed by SIGKILL"]


def test_the_agent_of_a_host_that_shares_the_folder_may_end_meanwhile(folder, before_it_appears):
    before_it_appears(lambda part: remove_files_of_job("job0"))
    note_end_of_rank("job0", 9, "exit code 0")
    assert [path.name for path in folder.iterdir()] == ["tnt-job0-ended-9"]


def test_notes_and_remains_of_this_job_alone_are_removed(folder):
    note_end_of_rank("job0", 3, "exit code 0")
    note_end_of_rank("job1", 3, "exit code 0")
    (folder / "tnt-job0-control").touch()
    remove_end_notes("job0")
    assert {path.name for path in folder.iterdir()} == {"tnt-job1-ended-3", "tnt-job0-control"}
    assert [path.name for path in remove_files_of_job("job0")] == ["tnt-job0-control"]
    assert [path.name for path in folder.iterdir()] == ["tnt-job1-ended-3"]


def test_a_note_may_hold_bytes_that_are_no_text(folder):
    note_end_of_rank("job0", 3, "ValueError: caf\udce9.txt")
    assert (folder / "tnt-job0-ended-3").read_text() == "ValueError: caf\\udce9.txt"
