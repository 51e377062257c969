"""The benchmark of the input runs, and judges by the ratio to the serial pass of each round."""

import json
import sys

from run_command import run_command

from benchmarks.input.__main__ import judge, make_row


def passes(*seconds):
    return [{"cpu_s": s, "steps": 3, "peak_mib": 100.0 + s} for s in seconds]


def test_each_round_is_compared_with_its_own_serial_pass():
    rounds = {("serial", 1): passes(1.0, 2.0, 4.0), ("tnt", 2): passes(0.5, 1.1, 2.4)}
    row = make_row(("tnt", 2), rounds)
    assert row["of_serial"] == [0.525, 0.55, 0.575]
    assert row["cpu_s"] == [0.8, 1.1, 1.75]
    assert (row["steps"], row["peak_mib"]) == (3, 101)


def test_only_what_is_promised_is_judged():
    row = {"way": "tnt", "ranks": 4, "of_serial": [0.2, 0.3, 0.4]}
    assert judge(row).startswith("met: 0.300 of serial on 4 ranks")
    assert judge({**row, "of_serial": [0.2, 0.31, 0.4]}).startswith("MISSED")
    assert judge({**row, "ranks": 3}) == judge({**row, "way": "cut"}) == ""


def test_all_ways_are_measured_and_written(tmp_path):
    file = tmp_path / "rows.jsonl"
    options = f"--images 12 --batch-size 4 --ranks 2 --rounds 1 --json {file}"
    finished = run_command(f"{sys.executable} -m benchmarks.input {options}")
    assert finished.status == 0, finished.output + finished.messages
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert header["options"] == {"images": 12, "batch_size": 4}
    steps = {(row["way"], row["ranks"]): row["steps"] for row in rows}
    assert steps.pop(("autoshard", 2)) > 0
    assert steps == {("serial", 1): 3, ("tnt", 2): 3, ("cut", 2): 3}
