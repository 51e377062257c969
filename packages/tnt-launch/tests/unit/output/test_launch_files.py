"""Files with the output of each rank are this job's alone."""

import os

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.output.files import OutputFiles


def test_each_rank_has_two_files_from_the_start_in_the_order_of_names(tmp_path):
    folder = tmp_path / "new" / "logs"
    with OutputFiles(str(folder), range(11)) as files:
        names = sorted(os.listdir(folder))
        assert names[0] == "rank-00.stderr.log"
        assert names[-1] == "rank-10.stdout.log"
        assert len(names) == 22
        files.write(3, "stdout", b"a")
        files.write(3, "stdout", b"b\0\xff")
    assert (folder / "rank-03.stdout.log").read_bytes() == b"ab\0\xff"


def test_files_of_an_earlier_job_are_replaced_and_others_stay(tmp_path):
    names = ["rank-00.stdout.log", "rank-7.stderr.log", "rank-0.stdout.log", "mine.log"]
    for name in names:
        (tmp_path / name).write_text("earlier")
    with open(tmp_path / "rank-0.stdout.log") as held, OutputFiles(str(tmp_path), [0]):
        assert held.read() == "earlier"
    assert sorted(os.listdir(tmp_path)) == ["mine.log", "rank-0.stderr.log", "rank-0.stdout.log"]
    assert (tmp_path / "mine.log").read_text() == "earlier"
    assert (tmp_path / "rank-0.stdout.log").read_text() == ""


def test_a_link_in_the_place_of_a_file_is_refused_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.stdout.log").symlink_to(victim)
    with pytest.raises(LaunchError, match=r"rank-0\.stdout\.log already exists"):
        OutputFiles(str(tmp_path / "logs"), [0])
    assert victim.read_text() == "precious"


def test_a_link_that_comes_later_is_not_followed(tmp_path, caplog):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    with OutputFiles(str(tmp_path / "logs"), [0]) as files:
        path = tmp_path / "logs" / "rank-0.stdout.log"
        path.unlink()
        path.symlink_to(victim)
        files.write(0, "stdout", b"x")
        files.write(0, "stdout", b"x")
    assert victim.read_text() == "precious"
    assert [record.getMessage() for record in caplog.records] == [
        "output of rank 0 is lost: rank-0.stdout.log: Too many levels of symbolic links "
        "[output-lost]"
    ]


def test_two_jobs_do_not_share_a_folder(tmp_path):
    with (
        OutputFiles(str(tmp_path), [0]),
        pytest.raises(LaunchError, match="belongs to a running job"),
    ):
        OutputFiles(str(tmp_path), [0])
    with OutputFiles(str(tmp_path), [0]):
        pass


def test_a_folder_that_cannot_be_made_is_an_error_of_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match=r"--output-dir: .*file/logs: Not a directory"):
        OutputFiles(str(tmp_path / "file" / "logs"), [0])
