"""The benchmark of calls other than training: what it computes, and its run on a small model."""

import json

import pytest
from run_command import run_command

from benchmarks.calls.__main__ import CALLS, make_row


def found(seconds, memory_mib, partition_s):
    """Of two ranks, the second of which takes twice as long for each call of two rounds."""
    times = {call: [[seconds, 0.0], [2 * seconds, 0.0]] for call in CALLS}
    slow = {call: [[2 * wall, cpu] for wall, cpu in rounds] for call, rounds in times.items()}
    common = {"memory_mib": memory_mib, "partition_s": partition_s}
    return {"ranks": [{"times": times, **common}, {"times": slow, **common}]}


def test_a_call_takes_as_long_as_the_slowest_rank():
    row = make_row("mlp", {"plain": found(1.0, 100.0, 0.0), "tnt": found(1.5, 110.0, 0.25)})
    assert row["predict_plain_s"] == pytest.approx([2.5, 3.0, 3.5])
    assert row["predict_of_plain"] == pytest.approx([1.5] * 3)
    assert (row["memory_plain_mib"], row["memory_tnt_mib"], row["partition_s"]) == (100, 110, 0.25)


def test_the_benchmark_runs_on_a_small_model(tmp_path):
    file = tmp_path / "rows.jsonl"
    finished = run_command(
        f"python -m benchmarks.calls --models mlp --samples 32 --rounds 1 --json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    _, row = map(json.loads, file.read_text().splitlines())
    assert row["partition_s"] > 0
    assert row["memory_tnt_mib"] > 0
