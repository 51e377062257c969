"""Two files of one benchmark are compared: only what clearly became worse fails."""

import json
import re
import sys

import pytest

from benchmarks import compare
from benchmarks.provenance import RESULTS

HEADER = {"benchmark": "training", "processor": "one", "cores": 2, "options": {"pixels": 224}}
ROW = {"model": "cnn", "rounds": 7, "of_ceiling": [0.95, 0.97, 0.99], "wall_s": [2.0, 2.1, 2.2]}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return exit status of a comparison of two lists of lines."""

    def compare_files(old, new, *options):
        paths = [tmp_path / "old.jsonl", tmp_path / "new.jsonl"]
        for path, rows in zip(paths, (old, new), strict=True):
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["compare", *map(str, paths), *options])
        return compare.main()

    return compare_files


@pytest.mark.parametrize(
    ("now", "status", "verdict"),
    [
        ({"of_ceiling": [0.90, 0.92, 0.94]}, 1, "worse"),
        ({"of_ceiling": [0.93, 0.94, 0.96]}, 0, "same"),
        ({"of_ceiling": [1.00, 1.01, 1.02]}, 0, "better"),
        ({"wall_s": [2.3, 2.4, 2.5]}, 1, "worse"),
        ({"wall_s": [1.7, 1.8, 1.9]}, 0, "better"),
        ({"wall_s": 2.15}, 0, "same"),
    ],
)
def test_a_quantity_changed_if_its_quartiles_do_not_overlap(now, status, verdict, run, capsys):
    assert run([HEADER, ROW], [HEADER, {**ROW, **now}]) == status
    [name] = now
    [line] = [line for line in capsys.readouterr().out.splitlines() if name in line]
    assert line.split()[0] == verdict


def test_numbers_without_quartiles_differ_if_their_digits_do(run):
    before = {"prediction": "ResNet-50", "speedup": 236.0, "error": -0.10}
    assert run([HEADER, before], [HEADER, {**before, "speedup": 236.01}]) == 0
    assert run([HEADER, before], [HEADER, {**before, "speedup": 230.0}]) == 1
    assert run([HEADER, before], [HEADER, {**before, "error": 0.05}]) == 0
    assert run([HEADER, before], [HEADER, {**before, "error": 0.15}]) == 1


def test_each_of_several_libraries_is_compared(run, capsys):
    before = {"dtype": "float32", "ns": {"c++": [70, 71, 72], "zig": [70, 71, 72]}}
    now = {"dtype": "float32", "ns": {"c++": [70, 71, 72], "zig": [80, 81, 82]}}
    assert run([HEADER, before], [HEADER, now]) == 1
    assert "ns of zig 71 (70 to 72) -> 81 (80 to 82)" in capsys.readouterr().out


def test_what_describes_the_run_is_not_judged_and_does_not_tell_rows_apart(run, capsys):
    slower = {**HEADER, "options": {"pixels": 224, "rounds": 3, "models": ["cnn"]}}
    assert run([HEADER, ROW], [slower, {**ROW, "rounds": 3}]) == 0
    assert capsys.readouterr().out.endswith("0 better, 0 worse, 2 same\n")


def test_on_a_busy_machine_ratios_can_be_compared_alone(run):
    slower = {**ROW, "wall_s": [4.0, 4.1, 4.2]}
    assert run([HEADER, ROW], [HEADER, slower]) == 1
    assert run([HEADER, ROW], [HEADER, slower], "--ratios") == 0


def test_rows_that_measure_the_same_are_compared_in_their_order(run):
    other = {**ROW, "of_ceiling": [0.5, 0.5, 0.5]}
    assert run([HEADER, ROW, other], [HEADER, ROW, other]) == 0
    assert run([HEADER, ROW, ROW], [HEADER, ROW, other]) == 1


def test_another_machine_is_named(run, capsys):
    run([HEADER, ROW], [{**HEADER, "processor": "two", "cores": 4}, ROW])
    assert capsys.readouterr().out.splitlines()[:2] == [
        "warning: processor differs: one and two",
        "warning: cores differs: 2 and 4",
    ]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ([{**HEADER, "benchmark": "input"}, ROW], "not two runs of one benchmark: training and"),
        ([ROW], "new.jsonl is no file of results: its first line is not the header"),
        ([HEADER, {**ROW, "model": "resnet50"}], "no row of the second file measures"),
        ([{**HEADER, "options": {"pixels": 32}}, ROW], "run both with the same options"),
    ],
)
def test_files_without_a_common_row_are_refused(new, message, run, capsys):
    with pytest.raises(SystemExit) as refusal:
        run([HEADER, ROW], new)
    assert refusal.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_stored_results_can_be_compared_with_themselves(capsys, monkeypatch):
    for file in RESULTS.glob("*.jsonl"):
        monkeypatch.setattr(sys, "argv", ["compare", str(file), str(file)])
        assert compare.main() == 0, file.name
        assert " 0 worse" in capsys.readouterr().out
