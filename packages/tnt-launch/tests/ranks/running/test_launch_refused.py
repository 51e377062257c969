"""What cannot be started is told in one sentence, with exit code 2."""

import os
import resource

import pytest


def test_a_program_that_cannot_be_started_is_an_error_with_exit_code_2(launch, tmp_path):
    (tmp_path / "program").write_text("neither a script nor a program\n")
    (tmp_path / "program").chmod(0o700)
    job = launch(["-n", "2", "--python-interpreter", "", "--", "./program"], "")
    exit_code, _, err = job.end()
    assert exit_code == 2
    assert "rank 0 cannot be started" in err


@pytest.mark.parametrize("limit", [6, 9])
def test_a_low_limit_of_open_files_is_one_sentence(launch, limit):
    """For the launcher itself, and for its ranks."""

    def limit_open_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    exit_code, _, err = launch(["-n", "2"], "", preexec_fn=limit_open_files).end()
    assert exit_code == 2
    assert err.startswith("tarantella: error: ")
    limits = f"The limit of open files (ulimit -n) is {limit}: raise it."
    assert err.endswith(f"{limits} [cannot-launch]\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-H", "localhost:1,127.0.0.1:1"], "'localhost' and '127.0.0.1' are both this host."),
        (["-H", "localhost:1", "--ssh", " "], "--ssh names no command. Received: ' '."),
    ],
)
def test_hosts_that_cannot_be_meant_are_one_sentence(launch, options, why):
    exit_code, _, err = launch(options, "").end()
    assert exit_code == 2
    assert why in err
    assert err.count("\n") == 1


def test_a_folder_that_was_deleted_is_one_sentence(launch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()

    def delete_own_folder():
        os.chdir(gone)
        gone.rmdir()

    exit_code, _, err = launch(["-n", "1"], "", preexec_fn=delete_own_folder).end()
    assert exit_code == 2
    assert "the folder in which this command was given has been deleted" in err
    assert err.count("\n") == 1
