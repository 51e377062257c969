"""The benchmark of the time until the first step has ended: what it computes, and a run of it."""

import json

import pytest
from run_command import run_command

from benchmarks.first_step.__main__ import make_row


def times_of(factor, wall, cpu):
    epochs = [[[factor * wall, factor * cpu], [5.0, 5.0], [factor * wall / 10, factor * cpu / 10]]]
    return {"epochs": epochs, "all": [[3 * factor * wall, factor * cpu]]}


def test_ratios_are_taken_within_a_round():
    rounds = [
        {"plain": times_of(speed, 2.0, 1.0), "tnt": times_of(speed, 3.0, 0.5)}
        for speed in (1.0, 4.0, 9.0)
    ]
    row = make_row("mlp", rounds)
    assert row["first_plain_wall_s"] == [5, 8, 13]
    assert row["first_tnt_cpu_s"][1] == 2
    for ratio in ("first_wall_of_plain", "later_wall_of_plain", "all_of_plain"):
        assert row[ratio] == [1.5, 1.5, 1.5]
    assert row["first_cpu_of_plain"] == [0.5, 0.5, 0.5]
    assert row["later_tnt_wall_s"][1] == pytest.approx(1.2)


def test_the_benchmark_runs_on_a_small_model(tmp_path):
    file = tmp_path / "row.jsonl"
    options = f"--ranks 1 --rounds 1 --models mlp --json {file}"
    finished = run_command(f"python -m benchmarks.first_step {options}")
    assert finished.status == 0, finished.output + finished.messages
    header, row = map(json.loads, file.read_text().splitlines())
    assert header["options"]["number"] == 1
    assert row["model"] == "mlp"
    assert row["first_plain_wall_s"][0] > 0
    assert row["first_tnt_wall_s"][0] > 0
