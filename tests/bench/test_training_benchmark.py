"""The benchmark of training: ratios to the ceiling, what is missing by name, and a small run."""

import json
import os
from argparse import Namespace

import pytest
from cases import cases
from run_command import run_command

from benchmarks.launching import tensorflow_variables
from benchmarks.training.__main__ import installed
from benchmarks.training.rounds import ways_of
from benchmarks.training.steady import SteadySteps
from benchmarks.training.summary import average, judge, line_of, make_rows
from benchmarks.training.ways import COMPARISONS, MWMS, OUR_UNFUSED, PLAIN, TNT

COMMON = {"model": "resnet50", "processes": 2, "threads": 1}


def steps(*seconds):
    times = [{"wall_s": s, "cpu_s": 2 * s} for s in seconds]
    return [{**each, "communication_s": 0.03, "exposed_s": 0.02} for each in times]


def rows_of(ours, fused=(1.0,) * 3):
    rounds = {PLAIN: steps(1.0, 2.0, 4.0), OUR_UNFUSED: steps(*ours), TNT: steps(*fused)}
    return make_rows(COMPARISONS["ranks"], rounds, COMMON)


def test_a_step_is_compared_with_the_ceiling_of_the_same_round():
    ceiling, ours, _ = rows_of([2.0, 2.5, 4.0])
    assert ceiling["is_ceiling"]
    assert ceiling["of_ceiling"] == [1, 1, 1]
    assert ours["wall_s"] == [2.25, 2.5, 3.25]
    assert ours["cpu_s"] == [4.5, 5, 6.5]
    assert ours["of_ceiling"] == [0.65, 0.8, 0.9]  # of 0.5, 0.8 and 1
    assert "0.800" in line_of(ours)


def test_a_missed_goal_says_where_the_time_goes():
    [verdict, where, fused] = judge(COMPARISONS["ranks"], rows_of([1.1, 2.1, 4.2], [1.05] * 3))
    assert verdict == ("MISSED: resnet50, 2 x 1 threads: 0.952 of the ceiling (wanted >= 0.97)")
    assert where.strip() == (
        "step 2100.0 ms instead of 2000.0: communication is under way for 30.0 ms and waited for "
        "20.0 ms; CPU time 4200.0 ms instead of 4000.0"
    )
    assert "50.0 % less time" in fused
    [verdict, _] = judge(COMPARISONS["ranks"], rows_of([1.0, 2.04, 4.0]))
    assert verdict.startswith("met: resnet50")


def test_peers_have_no_goal():
    assert judge(COMPARISONS["ddp"], rows_of([9.0] * 3)) == []


def test_the_first_step_of_a_row_is_not_counted():
    readings = iter([100.0, 101.0, 105.0])
    row = SteadySteps(lambda: {"wall_s": next(readings)})
    for _ in range(3):
        row.end_step()
    assert row.per_step() == {"wall_s": 2.5}
    assert average([{"wall_s": 1.0}, {"wall_s": 2.0}]) == {"wall_s": 1.5}


def test_peers_that_are_not_installed_are_named(tmp_path):
    found, missing = installed(Namespace(comparisons=list(COMPARISONS), peers_folder=tmp_path))
    assert found == [COMPARISONS["one"], COMPARISONS["ranks"]]
    for peer in ("torch DDP, Gloo", "Horovod with torch", "MultiWorkerMirroredStrategy"):
        assert missing[peer].startswith(f"not installed: {tmp_path}")
    assert "does not compile" in missing["Horovod with TensorFlow"]


def test_models_without_batch_normalisation_are_not_measured_twice():
    assert ways_of(COMPARISONS["one"], "cnn") == [PLAIN, OUR_UNFUSED]
    assert ways_of(COMPARISONS["one"], "resnet50") == [PLAIN, OUR_UNFUSED, TNT]


def test_all_processes_have_the_same_threads_and_only_ranks_a_place(tmp_path):
    def environments(way):
        return [start.environment for start in way.starts(2, tmp_path, [], tmp_path / "driver")]

    threads = {"OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"}
    independent, ours = environments(PLAIN), environments(TNT)
    assert [place["TNT_RANK"] for place in ours] == ["0", "1"]
    assert not any("TNT_RANK" in environment for environment in independent)
    for name in threads:
        assert len({environment[name] for environment in independent + ours}) == 1
    peer = environments(MWMS)[0]
    assert peer["PYTHONPATH"].split(os.pathsep)[1] == str(tmp_path / "tf_keras")


def test_workers_of_a_strategy_agree_on_their_ports(tmp_path):
    configs = [
        json.loads(tensorflow_variables(rank, 2, tmp_path / "driver")["TF_CONFIG"])
        for rank in range(2)
    ]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert len(set(configs[0]["cluster"]["worker"])) == 2
    assert [config["task"] for config in configs] == [
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
    ]


@cases("comparisons", ["one"], thorough=["ranks ddp mwms"])
def test_the_benchmark_runs_on_a_small_model(comparisons, tmp_path):
    file = tmp_path / "rows.jsonl"
    finished = run_command(
        f"python -m benchmarks.training --models transformer --comparisons {comparisons} "
        "--layers 0 --width 8 --tokens 4 --batch-size 3 --steps 2 --rounds 1 "
        f"--json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert header["options"]["comparisons"] == comparisons.split()
    measured = [row for row in rows if "wall_s" in row]
    assert [row["way"] for row in measured][:2] == ["plain Keras", "tnt, fused_batch_norm=False"]
    for row in measured:
        for name in ("wall_s", "cpu_s", "of_ceiling"):
            assert 0 < row[name][0] <= row[name][1] <= row[name][2]
    assert "Horovod with TensorFlow" in [row["way"] for row in rows if "not_measured" in row]
    assert "of the ceiling (wanted" in finished.output


@pytest.mark.thorough
def test_the_reference_transformer_is_measured_on_ranks():
    finished = run_command(
        "python -m benchmarks.training --models transformer_base --comparisons ranks "
        "--tokens 4 --batch-size 2 --steps 1 --rounds 1"
    )
    assert finished.status == 0, finished.output + finished.messages
    assert "tnt, fused_batch_norm=False" in finished.output
    assert "of the ceiling (wanted" in finished.output
