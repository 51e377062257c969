"""The overlap benchmark: its formula, its run on one host, and what it says without namespaces."""

import json
import shutil

import pytest
from cases import cases
from run_command import run_command

from benchmarks.linked_hosts import LinkUnavailable, linked_hosts
from benchmarks.overlap.picture import step_in
from benchmarks.overlap.summary import judge, make_row
from tnt_comm.testing import Trace, TraceEvent


def rounds(compute, communicate, together, transfer=1.0, beside=1.0):
    times = {"compute": compute, "communicate": communicate, "together": together}
    times |= {"transfer": transfer, "beside": beside}
    return {name: [[seconds]] * 3 for name, seconds in times.items()}


@pytest.mark.parametrize(("together", "hidden"), [(1.0, 1.0), (1.1, 0.8), (1.5, 0.0)])
def test_what_does_not_make_the_step_longer_is_hidden(together, hidden):
    row = make_row("32", "ucx", 32, rounds(1.0, 0.5, together))
    assert row["hidden"] == pytest.approx([hidden] * 3)
    assert row["can_hide"] == 1
    assert judge(row).startswith("met" if hidden >= 0.85 else "MISSED")


def test_plain_sockets_beside_a_step_are_told_in_the_same_way():
    row = make_row("32", "ucx", 32, rounds(1.0, 0.5, 1.2, transfer=0.4, beside=1.1))
    assert row["sockets_hide"] == pytest.approx([0.75] * 3)
    assert "60% hidden" in judge(row)
    assert "plain sockets beside a step: 75%" in judge(row)


def test_communication_that_takes_longer_than_backpropagation_is_not_judged():
    row = make_row("32", "ucx", 32, rounds(0.3, 0.5, 0.6))
    assert row["can_hide"] == pytest.approx(0.4)
    assert judge(row) is None


def test_without_its_tools_the_link_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with (
        pytest.raises(LinkUnavailable, match="apt install iproute2"),
        linked_hosts(2, "1gbit", tmp_path),
    ):
        pass


@cases("fusion", [["auto"]], thorough=[["0", "auto", "all"]])
def test_the_benchmark_runs_on_one_host(fusion, tmp_path):
    file = tmp_path / "rows.jsonl"
    finished = run_command(
        "python -m benchmarks.overlap --transports shm --model tiny "
        f"--fusion {' '.join(fusion)} --batch-size 2 --rounds 1 --steps 2 --json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert header["options"]["model"] == "tiny"
    assert [(row["fusion"], row["transport"]) for row in rows] == [(name, "shm") for name in fusion]
    for row in rows:
        assert row["rounds"] == 1
        for name in ("compute_s", "communicate_s", "together_s", "transfer_s", "beside_s"):
            assert 0 < row[name][0] <= row[name][1] <= row[name][2]


def event(row, name, begin_ms, end_ms, **arguments):
    return TraceEvent(0, row, "any", name, 1e3 * begin_ms, 1e3 * end_ms, arguments)


def trace_of(steps):
    """Steps by begin, length, and begin and end of the backward pass and of buckets in them."""
    events = []
    for begin, length, backward, buckets in steps:
        events.append(event("main thread", "training step", begin, begin + length))
        low, high = backward
        events.append(event("phase", "backpropagation", begin + low, begin + high))
        for number, (low, high) in enumerate(buckets):
            row = f"1 bucket {number} of 'gradients' ('layer')"
            events.append(event(row, "started", begin + low, begin + high, bytes=8))
    return Trace((), {}, tuple(events))


def test_the_picture_is_that_of_the_step_of_median_length():
    shape = ((20, 70), [(60, 80), (30, 50)])
    trace = trace_of([(0, 100, *shape), (200, 900, *shape), (2000, 90, *shape)])
    step = step_in(trace)
    assert (step.forward_end, step.backward_end, step.sums_end, step.end) == (20, 70, 80, 100)
    assert step.buckets == [(30, 50, 8), (60, 80, 8)]


def test_a_trace_without_sums_has_no_picture():
    with pytest.raises(ValueError, match="no training step"):
        step_in(trace_of([(0, 100, (20, 70), [])]))
