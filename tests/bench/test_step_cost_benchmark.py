"""The benchmark of CPU time per step: what it computes, and its run on a small model."""

import argparse
import json

import pytest
from cases import cases
from run_command import run_command

from benchmarks.step_cost.__main__ import make_row


def test_what_is_added_is_relative_to_the_plain_step_of_the_same_round():
    wall, cpu = 9.0, 1.0
    plain = [[[[wall, factor * cpu]] * 2] * 2 for factor in (1, 2, 4)]
    ours = [[[[2 * wall, 1.03 * factor * cpu]] * 2] * 2 for factor in (1, 2, 4)]
    arguments = argparse.Namespace(ranks=2, model="tiny", pixels=8, batch_size=1, rounds=3, steps=2)
    row = make_row({"plain": plain, "tnt": ours}, arguments)
    assert row["added_cpu_percent"] == pytest.approx([3, 3, 3])
    assert row["added_wall_percent"] == pytest.approx([100, 100, 100])
    assert row["plain_cpu_s"][1] == 2


@cases("ranks", [1], thorough=[2])
def test_the_benchmark_runs_on_a_small_model(ranks, tmp_path):
    file = tmp_path / "row.jsonl"
    finished = run_command(
        f"python -m benchmarks.step_cost --ranks {ranks} --model tiny --pixels 16 --batch-size 2 "
        f"--rounds 1 --steps 2 --json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    header, row = map(json.loads, file.read_text().splitlines())
    assert header["versions"].keys() == {"tarantella", "tensorflow", "keras"}
    for kind in ("plain", "tnt"):
        for clock in ("cpu", "wall"):
            assert 0 < row[f"{kind}_{clock}_s"][0] <= row[f"{kind}_{clock}_s"][2]
    assert "CPU time added" in finished.output
