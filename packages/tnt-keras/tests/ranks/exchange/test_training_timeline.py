"""What a training leaves in the timeline and says about its communication, and that it overlaps."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import timeline_runs
from rank_pools import ENVIRONMENT

from tnt_comm.testing import Trace, TraceEvent, observe_ranks, read_trace, run_ranks

STATES = ["ready", "started", "reduced", "finished"]


@pytest.fixture(scope="module")
def run(preloaded: Any, tmp_path_factory: Any) -> tuple[Trace, list[list[str]]]:
    """The trace of one training on two ranks, and what the ranks have logged."""
    path = tmp_path_factory.mktemp("timeline") / "trace.json"
    environment = {
        **ENVIRONMENT,
        "TNT_TIMELINE": str(path),
        "TNT_LOG_LEVEL": "INFO",
        "TF_NUM_INTRAOP_THREADS": "2",
        "TF_NUM_INTEROP_THREADS": "2",
    }
    messages = run_ranks(
        timeline_runs.train_evaluate_predict,
        2,
        env=environment,
        timeout_s=120,
        preloaded=preloaded,
    )
    return read_trace(path), messages


def _states(trace: Trace, rank: int, bucket: str, step: int) -> dict[str, TraceEvent]:
    return {
        event.name: event
        for event in trace.find(category="bucket", rank=rank)
        if event.arguments["bucket"] == bucket and event.arguments["step"] == step
    }


@pytest.mark.parametrize("rank", [0, 1])
def test_steps_and_epochs_are_marked(run: Any, rank: int) -> None:
    trace, _ = run
    [epoch] = trace.find("epoch", rank=rank)
    steps = trace.find("training step", rank=rank)
    assert len(steps) == timeline_runs.NUM_STEPS
    assert all(epoch.begin_us <= step.begin_us <= step.end_us <= epoch.end_us for step in steps)
    assert len(trace.find("test step", rank=rank)) == 2
    assert len(trace.find("prediction step", rank=rank)) == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_backpropagation_is_the_second_part_of_each_step(run: Any, rank: int) -> None:
    trace, _ = run
    phases = trace.find("backpropagation", rank=rank)
    steps = trace.find("training step", rank=rank)
    assert [phase.arguments["step"] for phase in phases] == list(range(timeline_runs.NUM_STEPS))
    for step, phase in zip(steps, phases, strict=True):
        assert step.begin_us < phase.begin_us < phase.end_us < step.end_us


@pytest.mark.parametrize("rank", [0, 1])
def test_every_gradient_bucket_of_every_step_is_in_the_timeline(run: Any, rank: int) -> None:
    trace, _ = run
    for index in range(timeline_runs.NUM_LAYERS):
        for step in range(timeline_runs.NUM_STEPS):
            states = _states(trace, rank, f"bucket {index} of 'gradients'", step)
            times = [states[state].begin_us for state in STATES]
            assert times == sorted(times)


@pytest.mark.parametrize("rank", [0, 1])
def test_buckets_are_reduced_before_the_last_gradient_exists(run: Any, rank: int) -> None:
    trace, _ = run
    for phase in trace.find("backpropagation", rank=rank):
        num_early = 0
        for index in range(timeline_runs.NUM_LAYERS):
            bucket = f"bucket {index} of 'gradients'"
            states = _states(trace, rank, bucket, phase.arguments["step"])
            num_early += states["reduced"].begin_us < phase.end_us
        assert num_early >= timeline_runs.NUM_EARLY


def test_the_master_logs_one_line_about_communication(run: Any) -> None:
    _, (of_master, of_other) = run
    [line] = [message for message in of_master if message.startswith("communication")]
    found = re.fullmatch(r"communication (\d+\.\d) % of step, (\d+) % hidden", line)
    assert found, line
    assert 0 < float(found[1]) <= 100
    assert 0 <= int(found[2]) <= 100
    assert of_other == []


@pytest.mark.thorough
def test_a_killed_rank_leaves_a_valid_trace(preloaded: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.json"
    environment = {**ENVIRONMENT, "TNT_TIMELINE": str(path)}
    reports = observe_ranks(
        timeline_runs.die_in_a_step,
        2,
        env=environment,
        timeout_s=120,
        grace_s=30,
        preloaded=preloaded,
    )
    assert [report.outcome for report in reports] == ["raised", "died"]
    trace = read_trace(path)
    assert [rank["state"] for rank in trace.ranks] == ["complete", "started"]
    # The fourth step, of which rank 1 had no part, or the end of the third.
    assert 3 <= len(trace.find("training step", rank=0)) <= 4
    assert len(trace.find("no events of rank 1: it was ended from outside, or has not ended yet"))
