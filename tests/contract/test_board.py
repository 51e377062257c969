"""What ranks write on the board is what the launcher reads there."""

import dataclasses
import os
import re
import subprocess
import sys

import pytest

import tnt_comm.board
import tnt_comm.failure
from tnt_launch.running import traceback_text
from tnt_launch.running.board import ENTRY, START, Board, Entry, Failure

RANK_1 = {
    "TNT_RANK": "1",
    "TNT_SIZE": "2",
    "TNT_LOCAL_RANK": "1",
    "TNT_LOCAL_SIZE": "2",
    "TNT_JOB_ID": "boardboard",
}


@pytest.fixture
def told(tmp_path):
    """Return what rank 1 has told at the end of a program."""
    board = Board(2)

    def run(program):
        (tmp_path / "train.py").write_text(program)
        subprocess.run(
            [sys.executable, "train.py"],
            cwd=tmp_path,
            env={**os.environ, **RANK_1},
            stderr=subprocess.DEVNULL,
            timeout=110,
            check=False,
            pass_fds=board.descriptors,
        )
        assert board.read(0) == Entry()
        return board.read(1)

    run.board = board
    yield run
    board.close()


def test_both_sides_know_the_same_fields_and_sizes():
    fields = [
        [field.name for field in dataclasses.fields(side)]
        for side in (tnt_comm.failure.Failure, Failure)
    ]
    assert fields[0] == fields[1]
    assert (tnt_comm.board.ENTRY, tnt_comm.board.START) == (ENTRY, START)


def test_both_sides_know_the_same_code_as_that_of_users():
    """A rank names the line where it reports its error, the launcher where it finds a traceback."""

    def pattern(module):
        beside = re.escape(module._BESIDE_THIS_PACKAGE)
        assert beside in module._NOT_THE_USERS.pattern
        return module._NOT_THE_USERS.pattern.replace(beside, "")

    assert pattern(tnt_comm.failure) == pattern(traceback_text)


@pytest.mark.parametrize(
    "file", ["/home/a/src/tarantella/models/train.py", "/home/a/tnt_data/train.py", "train.py"]
)
def test_a_folder_of_the_users_may_have_the_name_of_a_package(file):
    assert tnt_comm.failure.is_of_users(file)


def test_epoch_and_step_are_those_that_a_rank_notes(told):
    entry = told("from tnt_comm.board import note_progress\nnote_progress(3, 120)")
    assert entry == Entry(3, 120)


def test_where_a_rank_is_until_it_has_joined_is_told(told):
    program = "from tnt_comm.board import note_place\nnote_place('train.py:3, in load')"
    assert told(program) == Entry(place="train.py:3, in load")


def test_where_ranks_of_other_hosts_are_is_told_to_ranks(told):
    places = {0: "a.py:1", 2: "b.py:2, in \u00e9"}
    told.board.note_places(places)
    told(
        "from tnt_comm.board import note_place, place_of\n"
        "note_place(str([place_of(rank) for rank in (0, 2, 3)]))"
    )
    assert told.board.read(1).place == "['', 'b.py:2, in \u00e9', '']"  # rank 0 is of this host


def test_as_many_places_are_told_as_there_is_room_for(told):
    told.board.note_places(dict.fromkeys(range(2, 50), 1000 * "x"))
    told("from tnt_comm.board import *\nnote_place(str([len(place_of(r)) for r in (2, 49)]))")
    assert told.board.read(1).place == "[1000, 0]"


@pytest.mark.parametrize(
    ("last", "kind"), [("raise ValueError", "ValueError"), ("sys.exit", "SystemExit")]
)
def test_the_error_that_ends_a_program_is_told(told, tmp_path, last, kind):
    failure = told(f"import sys\nimport tnt_comm\n{last}('no\\nmore')").failure
    assert (failure.kind, failure.text) == (kind, "no")
    assert (failure.file, failure.line) == (str(tmp_path / "train.py"), 3)
    assert failure.cause_rank is None
    assert failure.time_s > 0


def test_an_error_tells_whose_consequence_it_is(told):
    program = "import tnt_comm\nerror = tnt_comm.PeerLostError('gone')\nerror.cause_rank = 0\n"
    failure = told(program + "raise error").failure
    assert (failure.kind, failure.cause_rank) == ("tnt_comm.errors.PeerLostError", 0)


@pytest.mark.parametrize("text", ["'x' * 100_000", "'\\U0001f600' * 100_000", "'\\udcff'"])
def test_any_text_has_room(told, text):
    failure = told(f"import tnt_comm\nraise ValueError({text})").failure
    assert failure.kind == "ValueError"
    assert failure.text


def test_a_rank_knows_whether_the_launcher_ends_the_job(told, tmp_path):
    program = "import sys, tnt_comm.board\nsys.exit(str(tnt_comm.board.is_ending()))"
    assert told(program).failure.text == "False"
    told.board.note_ending()
    assert told(program).failure.text == "True"


def test_a_rank_that_has_joined_says_so(told):
    assert not told("import tnt_comm").has_joined
    assert told("from tnt_comm import board\nboard.note_joined()").has_joined


def test_what_a_rank_starts_does_not_write_for_it(told):
    program = "import os, sys, tnt_comm\n"
    program += "os.system(f'{sys.executable} -c \"import tnt_comm; raise ValueError\"')"
    assert told(program) == Entry()
