"""The benchmark of the input runs, and judges by the ratio to the serial pass of each round."""

import json
import sys

import pytest
from run_command import run_command

from benchmarks.input.__main__ import judge, make_row


def passes(*seconds):
    return [{"cpu_s": s, "start_s": s / 10, "steps": 3, "input_mib": 100.0 + s} for s in seconds]


def test_each_round_is_compared_with_its_own_serial_pass():
    rounds = {("serial", 1): passes(1.0, 2.0, 4.0), ("tnt", 2): passes(0.5, 1.1, 2.4)}
    row = make_row(("tnt", 2), rounds)
    assert row["of_serial"] == [0.525, 0.55, 0.575]
    assert row["cpu_s"] == [0.8, 1.1, 1.75]
    assert row["start_s"] == [0.08, 0.11, 0.175]
    assert row["input_mib"] == [100.8, 101.1, 101.8]
    assert row["steps"] == 3


def test_cpu_time_and_memory_are_judged():
    def verdicts(ranks, ratio, mib):
        serial = {"way": "serial", "ranks": 1, "of_serial": [1.0] * 3, "input_mib": [100] * 3}
        own = {"way": "tnt", "ranks": ranks, "of_serial": [0.1, ratio, 0.9], "input_mib": [mib] * 3}
        return judge([serial, own, {**own, "way": "cut"}])

    assert verdicts(4, 0.3, 110) == [
        "met: CPU time 0.300 of serial on 4 ranks (wanted <= 0.3)",
        "met: memory 1.100 of serial on 4 ranks (wanted <= 1.1)",
    ]
    assert [verdict.split(":")[0] for verdict in verdicts(2, 0.56, 111)] == ["MISSED"] * 2
    assert [verdict.split(" ")[1] for verdict in verdicts(3, 0.4, 50)] == ["memory"]


@pytest.mark.thorough
def test_all_ways_are_measured_and_written(tmp_path):
    file = tmp_path / "rows.jsonl"
    options = f"--images 24 --batch-size 4 --ranks 2 --rounds 1 --json {file}"
    finished = run_command(f"{sys.executable} -m benchmarks.input {options}")
    assert finished.status == 0, finished.output + finished.messages
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert header["options"] == {"images": 24, "batch_size": 4}
    steps = {(row["way"], row["ranks"]): row["steps"] for row in rows}
    assert steps.pop(("autoshard", 2)) > 0
    # Six, of which the first two count by themselves.
    assert steps == {("serial", 1): 4, ("tnt", 2): 4, ("alone", 2): 4, ("cut", 2): 4}
