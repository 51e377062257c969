"""The benchmark of the proof: what it computes and refuses, and its run on a small model."""

import argparse
import json

import pytest
from run_command import run_command

from benchmarks.jobs import JobFailed
from benchmarks.proof import resident_memory
from benchmarks.proof.__main__ import judge, make_row, require_equal


def training(*steps, proofs=(), loss=1.0):
    return {
        "parameters": 7,
        "steps": [{"cpu_s": s, "wall_s": 2 * s} for s in steps],
        "losses": [loss] * len(steps),
        "proofs": list(proofs),
        "highest_mib": 500.0,
    }


def proof(seconds, findings=0):
    memory = {"before_mib": 100.0, "highest_mib": 300.0, "after_mib": 150.0}
    return {"cpu_s": seconds, "wall_s": 6 * seconds, "findings": findings, **memory}


def test_the_proof_is_compared_with_the_steps_of_the_same_round():
    trainings = {
        "proved": [training(15.0, 1.0, proofs=[proof(s)]) for s in (5.0, 12.0, 4.0)],
        "unproved": [training(10.0, 1.0, 2.0, 90.0), training(20.0, 3.0), training(4.0, 1.0)],
    }
    row = make_row("lenet", trainings, argparse.Namespace(ranks=2))
    assert row["proof_cpu_s"] == [4.5, 5, 8.5]
    assert row["first_step_cpu_s"] == [7, 10, 15]
    assert row["step_cpu_s"] == [1.5, 2, 2.5]
    assert row["proof_and_first_step_cpu_s"] == [15, 15, 15]
    assert row["proof_in_first_steps_cpu"] == [0.55, 0.6, 0.8]
    assert row["proof_in_first_steps_wall"] == [1.65, 1.8, 2.4]
    assert row["proof_in_steps_cpu"] == [3.2, 4, 4]
    assert [row[f"{name}_mib"] for name in ("before", "highest", "after", "training")] == [
        100,
        300,
        150,
        500,
    ]


@pytest.mark.parametrize(("ratio", "verdict"), [(1.0, "met"), (1.01, "MISSED")])
def test_the_proof_may_take_one_first_step(ratio, verdict):
    row = {"model": "lenet", "proof_in_first_steps_cpu": [0.1, ratio, 9.0]}
    assert judge(row).startswith(f"{verdict}: the proof of lenet")


@pytest.mark.parametrize(
    ("proved", "unproved", "words"),
    [
        (training(1.0), training(1.0), "must be proved once"),
        (training(1.0, proofs=[proof(1.0, findings=1)]), training(1.0), "must be proved once"),
        (training(1.0, proofs=[proof(1.0)]), training(1.0, proofs=[proof(1.0)]), "not at all"),
        (training(1.0, proofs=[proof(1.0)], loss=1.01), training(1.0), "1.01 after the proof"),
    ],
)
def test_a_round_that_compares_other_things_is_refused(proved, unproved, words):
    with pytest.raises(JobFailed, match=words):
        require_equal("lenet", proved, unproved)


def test_the_highest_memory_is_that_since_it_was_forgotten():
    before = resident_memory.resident_mib()
    block = b"1" * (64 << 20)
    del block
    assert resident_memory.highest_mib() >= before + 60
    resident_memory.forget_highest()
    assert resident_memory.highest_mib() < before + 30


@pytest.mark.thorough
def test_the_benchmark_runs_on_a_small_model(tmp_path):
    file = tmp_path / "rows.jsonl"
    finished = run_command(
        "python -m benchmarks.proof --models transformer --layers 1 --width 8 --tokens 4 "
        f"--batch-size 3 --steps 2 --rounds 1 --json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    header, row = map(json.loads, file.read_text().splitlines())
    assert header["options"]["width"] == 8
    assert row["model"] == "transformer"
    for name in ("proof", "first_step", "step"):
        assert row[f"{name}_cpu_s"][1] > 0
        assert row[f"{name}_wall_s"][1] > 0
    assert 0 < row["before_mib"] <= row["highest_mib"]
    assert "the proof of transformer takes the CPU time of" in finished.output
