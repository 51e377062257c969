"""The benchmark of lanes: what it computes, and its run on a small model."""

import argparse
import json

import pytest
from run_command import run_command

from benchmarks.lanes.__main__ import line_of, make_row


def job(wall_s, build_s=1.0, memory_mib=100.0):
    return {"steps": [[wall_s, 1.0]] * 3, "build_s": build_s, "memory_mib": memory_mib}


def test_what_is_added_is_relative_to_the_job_without_lanes_of_the_same_round():
    rounds = [[job(factor), job(1.1 * factor, 2.0, 150.0)] for factor in (1.0, 2.0, 4.0)]
    row = make_row("cnn", 2, argparse.Namespace(lanes=4, batch_size=64), rounds)
    assert row["added_percent"] == pytest.approx([10, 10, 10])
    assert row["build_ratio"][1] == 2
    assert row["without_s"][1] == 2
    assert "met: +10.0 % (wanted <= 15 %)" in line_of(row)
    assert "MISSED: +10.0 % (wanted <= 1 %)" in line_of({**row, "ranks": 4})


def test_the_benchmark_runs_on_a_small_model(tmp_path):
    file = tmp_path / "rows.jsonl"
    finished = run_command(
        "python -m benchmarks.lanes --models lenet --ranks 1 --lanes 2 --batch-size 16 --steps 2 "
        f"--rounds 1 --json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    header, row = map(json.loads, file.read_text().splitlines())
    assert header["versions"].keys() == {"tarantella", "tensorflow", "keras"}
    assert (row["ranks"], row["lanes"]) == (1, 2)
    assert 0 < row["with_s"][0] <= row["with_s"][2]
