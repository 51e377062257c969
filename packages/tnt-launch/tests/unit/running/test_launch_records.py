"""Records of jobs: whose they are, where they lie, and which of them tell of a job that runs."""

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from tnt_launch.running.job_files import JobRecord, candidates, open_folder, recorded

RECORD = JobRecord("0123456789abcdef", "train.py", "/work")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The place for new records."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return runtime / "tarantella"


def test_a_record_is_there_for_as_long_as_the_job_and_for_this_user_alone(folder):
    with recorded(RECORD) as path:
        assert Path(path).parent == folder
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        opened = open_folder(str(folder))
        assert opened.records() == [RECORD]
        opened.close()
    assert not folder.exists()


def test_an_error_of_the_job_stays_what_it_is_and_removes_the_record(folder):
    with pytest.raises(OSError, match="of the job"), recorded(RECORD):
        raise OSError("of the job")
    assert not folder.exists()


def test_without_a_private_runtime_folder_records_are_in_the_temporary_one(folder, monkeypatch):
    own = f"tnt-{os.geteuid()}"
    assert candidates()[0] == str(folder)
    assert candidates()[-1] == f"/tmp/{own}"
    folder.parent.chmod(0o750)
    assert str(folder) not in candidates()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert any(path.endswith(own) for path in candidates())


@pytest.mark.parametrize("trap", ["link", "open to others", "file"])
def test_a_folder_that_may_be_somebody_elses_is_not_used(tmp_path, trap):
    path = tmp_path / "records"
    if trap == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "target")
    elif trap == "open to others":
        path.mkdir()
        path.chmod(0o770)
    else:
        path.touch()
    assert open_folder(str(path), creates=True) is None


def test_a_link_is_no_record_and_what_cannot_be_read_is_left_out(folder, tmp_path):
    with recorded(RECORD) as path:
        (folder / "a.json").write_text("{")
        (folder / "b.json").write_text("{}")
        (tmp_path / "elsewhere").write_text(Path(path).read_text())
        (folder / "c.json").symlink_to(tmp_path / "elsewhere")
        opened = open_folder(str(folder))
        assert opened.records() == [RECORD]
        opened.close()


def test_a_job_runs_if_its_launcher_does_and_not_another_process_with_its_number():
    assert RECORD.is_running
    assert RECORD.is_of_this_host
    assert not dataclasses.replace(RECORD, start=RECORD.start - 1).is_running
    assert not dataclasses.replace(RECORD, boot="of yesterday").is_running
    assert not dataclasses.replace(RECORD, pid=2**22 + 1).is_running
    assert not dataclasses.replace(RECORD, host="elsewhere").is_of_this_host
    assert not dataclasses.replace(RECORD, namespace="pid:[1]").is_of_this_host
