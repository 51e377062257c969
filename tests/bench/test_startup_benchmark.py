"""The benchmark of start and end: what it computes, and its run with Python and our launcher."""

import json

import pytest
from run_command import run_command

from benchmarks.startup.__main__ import judged, lines_of, make_rows
from benchmarks.startup.launchers import OURS, PYTHONS, find_launchers

MEASURED = {
    (PYTHONS, "start"): [5.0, 9.0, 6.0],
    (OURS[0], "start"): [5.2, 9.1, 6.4],
    (OURS[1], "save"): [0.4, 0.6, 0.7],
}


def test_what_is_added_is_relative_to_python_in_the_same_round():
    rows = {row["launcher"]: row for row in make_rows(MEASURED, 2)}
    assert rows[OURS[0]]["added_s"] == pytest.approx([0.15, 0.2, 0.3])
    assert rows[OURS[1]]["seconds"][1] == 0.6
    assert "added_s" not in rows[OURS[1]]


def test_medians_are_compared_with_the_goals():
    assert judged(make_rows(MEASURED, 2)) == [
        "met: tarantella: 0.20 s added to the start (wanted <= 0.3 s)",
        "MISSED: tarantella, tnt.Model at save: 0.60 s from death to end (wanted <= 0.5 s)",
    ]


def test_the_table_has_a_line_for_each_row():
    first, *lines = lines_of(make_rows(MEASURED, 2))
    assert first.startswith("launcher")
    assert [line.split("  ")[0] for line in lines] == [PYTHONS, *OURS]


def test_launchers_of_others_are_those_that_are_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert len(find_launchers(2, tmp_path)) == 4
    for program in ("torchrun", "mpich/bin/mpiexec"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).touch(0o700)
    found = {one.name: one.command for one in find_launchers(2, tmp_path)}
    assert found["torchrun"][1] == "--nproc-per-node=2"
    assert found["MPICH"][:3] == (str(tmp_path / "mpich/bin/mpiexec"), "-n", "2")


def test_the_benchmark_runs(tmp_path):
    file = tmp_path / "rows.jsonl"
    finished = run_command(
        "python -m benchmarks.startup --ranks 1 --rounds 1 --points save --launchers Model "
        f"--json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert header["benchmark"] == "startup"
    assert [(row["launcher"], row["what"]) for row in rows] == [
        (OURS[1], "start"),
        (OURS[1], "save"),
    ]
    assert all(row["seconds"][0] > 0 for row in rows)
