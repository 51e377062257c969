"""What rank 0 has written is read, also if it was killed or started again."""

import json

import pytest
from run_files import end, header, note, step

from tnt_launch.errors import LaunchError
from tnt_launch.verify.hash_file import Note, Result, parse_hash_file, read_hash_file


def read(*lines):
    return parse_hash_file(map(json.dumps, lines), "hashes.jsonl")


def test_a_file_has_what_was_written():
    found = read(
        header(size=2, lanes=4),
        note("rank", "train.py:12 asks for the rank"),
        step(1, {"loss": 0.5, "output": "0a"}, {"kernel": "1b"}),
        end(kernel=[0.1, 0.2]),
    )
    assert (found.size, found.lanes, found.has_ended) == (2, 4, True)
    assert found.steps[1].results == {"loss": Result("0.5", 0.5), "output": Result("0a")}
    assert found.steps[1].variables == {"kernel": "1b"}
    assert found.notes == (Note("rank", "train.py:12 asks for the rank"),)
    assert found.norms == {"kernel": (0.1, 0.2)}


def test_of_a_step_that_a_restart_has_taken_again_the_last_counts():
    found = read(
        header(lanes=None),
        step(1, {"loss": 1.0}),
        step(2, {"loss": 2.0}),
        header(lanes=None),
        step(2, {"loss": 3.0}),
        step(3, {"loss": 4.0}),
        end(),
    )
    assert [one.results["loss"].value for one in found.steps.values()] == [1.0, 3.0, 4.0]
    assert found.lanes is None
    assert found.has_ended


def test_a_run_that_was_killed_has_no_end_and_maybe_half_a_line():
    lines = [json.dumps(header()), json.dumps(step(1)), json.dumps(step(2))[:20]]
    found = parse_hash_file(lines, "hashes.jsonl")
    assert list(found.steps) == [1]
    assert not found.has_ended


def test_numbers_that_are_none_are_read():
    found = read(header(), step(1, {"loss": float("nan")}))
    assert found.steps[1].results["loss"].value != found.steps[1].results["loss"].value


def test_a_run_without_a_step_by_tarantella_has_nothing(tmp_path):
    assert read() is None
    assert read_hash_file(str(tmp_path / "none")) is None


def test_another_format_is_refused():
    with pytest.raises(LaunchError, match=r"hashes.jsonl has format 2 .* Install the same"):
        read(header(format=2))
