"""The benchmark of bits on several numbers of ranks: what it computes, draws, and a run of it."""

import json
import xml.etree.ElementTree as xml

import pytest
from run_command import run_command

from benchmarks.same_bits.__main__ import hashes_with_lanes, make_row
from benchmarks.same_bits.picture import columns_of, differences, draw
from tnt_launch.verify.hash_file import Record, Result, Step


def record_of(losses, size=2, lanes=8):
    steps = {
        number: Step(number, "train_step", "net", {"loss": Result(f"hash of {loss}", loss)})
        for number, loss in enumerate(losses, start=1)
    }
    return Record({"size": size, "lanes": lanes}, steps, norms={})


def row_of(ranks, lanes, losses):
    return make_row(record_of(losses, ranks, lanes))


def test_a_row_has_the_losses_of_all_steps_and_one_hash():
    row = row_of(2, 8, [0.5, 0.25])
    assert {**row, "hash": None} == {
        "ranks": 2, "lanes": 8, "steps": 2, "hash": None, "losses": [0.5, 0.25],
    }  # fmt: skip
    assert row["hash"] == row_of(4, 8, [0.5, 0.25])["hash"]
    assert row["hash"] != row_of(4, 8, [0.5, 0.125])["hash"]


def test_only_runs_with_lanes_must_have_one_hash():
    rows = [row_of(1, 8, [0.5]), row_of(2, 8, [0.5]), row_of(1, None, [0.25])]
    assert hashes_with_lanes(rows) == [rows[0]["hash"]]
    assert len(hashes_with_lanes([*rows, row_of(4, 8, [0.25])])) == 2


def test_the_picture_has_a_column_for_each_number_of_lanes():
    rows = [row_of(1, 8, [0.5]), row_of(1, None, [0.5]), row_of(2, None, [0.75])]
    assert [(title, len(runs)) for title, runs in columns_of(rows)] == [
        ("8 lanes", 1),
        ("without lanes", 2),
    ]
    assert differences(rows[2], rows[1]) == [0.25]


def test_the_picture_shows_each_hash_and_whether_it_is_the_first_one(tmp_path):
    pytest.importorskip("matplotlib")
    same = [row_of(ranks, 2, [0.5, 0.25]) for ranks in (1, 2)]
    others = [row_of(ranks, None, [0.5, 0.25 * ranks]) for ranks in (1, 2)]
    draw([*same, *others], tmp_path / "picture.svg")
    tree = xml.parse(tmp_path / "picture.svg")
    texts = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    for row in (*same, *others):
        assert row["hash"] in texts
    assert (texts.count("same"), texts.count("different")) == (1, 1)


def test_the_benchmark_finds_the_same_bits_on_two_numbers_of_ranks(tmp_path):
    file = tmp_path / "rows.jsonl"
    options = f"--ranks 1 2 --lanes 2 --steps 2 --json {file}"
    finished = run_command(f"python -m benchmarks.same_bits {options}")
    assert finished.status == 0, finished.output + finished.messages
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert header["options"] == {"lanes": 2}
    assert [(row["ranks"], row["lanes"]) for row in rows] == [(1, 2), (2, 2), (1, None), (2, None)]
    assert [len(row["losses"]) for row in rows] == [2] * 4
    assert rows[0]["hash"] == rows[1]["hash"]
    assert rows[2]["hash"] != rows[3]["hash"]
