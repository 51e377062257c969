"""The soak: what counts as growth, and that it runs."""

import json

import pytest
from run_command import run_command

from benchmarks.soak.__main__ import growth_of
from benchmarks.soak.use import ProcessUse


def uses_of(memory):
    return [ProcessUse(float(mb), descriptors=7, threads=3) for mb in memory]


@pytest.mark.parametrize(
    ("memory", "growth"),
    [
        ([10, 20, 50, 60, 60, 60, 60, 60], 5.0),  # the second quarter: 50 and 60
        ([60] * 8, 0.0),
        ([10, 20, 30, 40, 50, 60, 70, 80], 40.0),
        ([10, 20], 0.0),  # a second quarter is all there is
    ],
)
def test_growth_is_from_the_second_quarter_to_the_last(memory, growth):
    assert growth_of(uses_of(memory)) == {"memory_mib": growth, "descriptors": 0, "threads": 0}


def test_the_soak_runs(tmp_path):
    file = tmp_path / "rows.jsonl"
    command = "python -m benchmarks.soak --parts jobs crowd --jobs 1 --crowd 2"
    finished = run_command(f"{command} --json {file}")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row.get("soak") for row in rows] == [None, "jobs", "crowd"], finished.messages
    assert [row["processes"] for row in rows[1:]] == [0, 0]
