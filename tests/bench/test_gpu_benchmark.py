"""The benchmark of one GPU: what its results mean, and all its parts with the stand-in driver."""

import ctypes
import json
import shlex

import numpy as np
import pytest
from fake_cuda_library import fake_gpus
from run_command import run_command

from benchmarks.gpu.__main__ import Driver, Report
from benchmarks.gpu.bits import Case, difference
from benchmarks.gpu.driver import STAND_IN
from benchmarks.gpu.host_memory import FILLING, of_driver
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.programs import Ended, Program, start_words, variables_of
from benchmarks.gpu.results import SMALL
from benchmarks.gpu.special_values import DTYPES, special_values, unsigned_of
from benchmarks.quantities import quantity_of

OF = {part.name: part for part in PARTS}
A_GPU = Driver("NVIDIA H100", 13000)


def ended(*results, status=0):
    return Ended(status, "", dict(enumerate(results)), 1.0)


def verdicts(name, program, end):
    return [finding.is_met for finding in OF[name].findings(program, end)]


# ---- order ----


def seen(control, record, wait):
    orders = {"control": control, "cuCtxRecordEvent": record, "cuCtxWaitEvent": wait}
    times = {"call_us": {"cuEventRecord": [1.0] * 3}, "held_ms": 0.1}
    return ended({"driver": 13000, "seen": {"copies": orders}, "new": 7, **times})


def test_events_order_streams_if_a_stream_without_them_would_have_been_early():
    program = Program("order")
    assert verdicts("order", program, seen(0, 7, 7)) == [True]
    assert verdicts("order", program, seen(0, 0, 7)) == [False]
    assert verdicts("order", program, seen(0, 7, 0)) == [False]
    assert verdicts("order", program, seen(7, 7, 7)) == [False]


def test_work_behind_which_streams_wait_anyway_says_nothing_of_events():
    answer = seen(0, 7, 7)
    answer.results[0]["seen"]["other copies"] = {
        **answer.results[0]["seen"]["copies"],
        "control": 7,
    }
    assert verdicts("order", Program("order"), answer) == [True]


def test_a_driver_without_events_of_a_context_has_no_answer():
    (finding,) = OF["order"].findings(Program("order"), ended({"driver": 12040, "seen": {}}))
    assert not finding.is_met
    assert "12040" in finding.words


# ---- copies ----


def copied(shared_ms):
    ways = ("device to host", "host to device")
    times = {
        memory: {way: {"copy_ms": [milliseconds], "held_ms": [0.5]} for way in ways}
        for memory, milliseconds in {
            "private": 8.0, "private, registered": 2.0, "shared, registered": shared_ms,
        }.items()
    }  # fmt: skip
    pinned = ["private, registered", "shared, registered"]
    others = {"register_ms": {"shared": 9.0}, "both_ms": [4.0]}
    return ended({"bytes": 8_000_000, "times": times, "pinned": pinned, **others})


def test_copies_are_compared_with_the_fastest_pinned_memory():
    rows = OF["copies"].rows(Program("copies"), copied(shared_ms=4.0))
    of = {(row["memory"], row["direction"]): row for row in rows}
    slow = of["private", "device to host"]
    assert slow["gb_per_s"] == [1.0] * 3
    assert slow["vs_limit"] == [0.25] * 3
    assert of["shared, registered", "host to device"]["vs_limit"] == [0.5] * 3
    assert of["pinned", "both at once"]["gb_per_s"] == [4.0] * 3
    assert verdicts("copies", Program("copies"), copied(shared_ms=4.0)) == [True] * 2 + [False] * 2
    assert verdicts("copies", Program("copies"), copied(shared_ms=2.1)) == [True] * 4


class Allocating:
    """A driver that gives memory of the host, which the stand-in does not."""

    def __init__(self):
        self.memory = ctypes.create_string_buffer(8)

    def call(self, function, pointer, num_bytes, _):
        assert (function, num_bytes) == ("cuMemHostAlloc", len(self.memory))
        pointer._obj.value = ctypes.addressof(self.memory)


def test_memory_of_the_driver_is_used_where_it_says():
    gpu = Allocating()
    memory = of_driver(8, gpu)
    assert memory.address == ctypes.addressof(gpu.memory)
    assert gpu.memory.raw == bytes([FILLING]) * 8


# ---- bits ----


@pytest.fixture
def signalling_nans():
    """Lets bfloat16 look at them."""
    with np.errstate(invalid="ignore"):
        yield


@pytest.mark.usefixtures("signalling_nans")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_one_place_has_one_nan_or_two_infinities_at_most(dtype, size):
    values = [special_values(dtype, rank, size, 20_000) for rank in range(size)]
    nans = np.sum([np.isnan(each) for each in values], axis=0)
    infinities = np.sum([np.isinf(each) for each in values], axis=0)
    assert nans.max() == 1
    assert infinities.max() == 2
    assert not (nans & infinities).any()
    assert (nans == 1).sum() > 1000


@pytest.mark.usefixtures("signalling_nans")
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_have_every_kind_of_number_on_every_rank(dtype):
    smallest = np.ones(1, unsigned_of(dtype)).view(np.dtype(dtype))[0]
    for rank in range(3):
        values = special_values(dtype, rank, 3, 20_000)
        assert smallest in values
        assert (np.signbit(values) & (values == 0)).any()
        assert {float("inf"), float("-inf")} <= set(values[np.isinf(values)].astype(float))


def test_zeros_and_nans_differ_if_their_bits_do():
    case = Case("float32", None, 1.0)
    plus, minus = np.zeros(3, np.float32), np.array([0, 0, -0.0], np.float32)
    found = difference(case, [plus, plus], [plus, minus])
    assert found.num_wrong == 1
    assert "element 2 of tensor 1: 0x0 on the GPU, 0x80000000 on processors" in found.first
    nan = np.full(3, np.nan, np.float32)
    assert difference(case, [nan], [nan]).num_wrong == 0


def test_one_wrong_bit_of_one_rank_is_missed():
    right = {"cases": 1, "elements": 10, "num_wrong": 0, "first": ""}
    wrong = {**right, "num_wrong": 1, "first": "element 3"}
    program = Program("bits", 2, "ipc")
    assert verdicts("bits", program, ended(right, right)) == [True]
    assert verdicts("bits", program, ended(right, wrong)) == [False]


# ---- sums ----


def summed(**times):
    return {"tensors": 2, "bytes": 8, "times": times}


def test_the_slowest_rank_of_a_round_counts():
    fast = summed(d2h_ms=[1.0], h2d_ms=[1.0], host_ms=[2.0], step_ms=[3.0])
    slow = summed(d2h_ms=[1.0], h2d_ms=[1.0], host_ms=[1.0], step_ms=[8.0])
    (row,) = OF["sums"].rows(Program("sums", 2, "host"), ended(fast, slow))
    assert row["step_ms"] == [8.0] * 3
    assert row["vs_copies"] == [0.25] * 3
    assert row["vs_host"] == [0.25] * 3
    assert row["vs_parts"] == [0.5] * 3
    assert row["share_percent"] == {"d2h": 25, "sum": 50, "h2d": 25}


# ---- kill ----


def killed(**of_rank_1):
    error = {"at_s": 11.0, "kind": "PeerLostError", "cause_rank": 2, "error": "rank 2 is dead"}
    return ended(error, {**error, **of_rank_1}, {"at_s": 10.0}, status=137)


def test_every_rank_must_name_the_one_that_was_killed():
    program = Program("kill", 3, "ipc", ("half",))
    assert verdicts("kill", program, killed()) == [True]
    assert verdicts("kill", program, killed(cause_rank=0)) == [False]
    assert verdicts("kill", program, killed(kind="CommTimeoutError")) == [False]
    (row,) = OF["kill"].rows(program, killed(at_s=13.0))
    assert row["noticed_s"] == [3.0] * 3


def test_a_rank_without_an_error_is_missed():
    program = Program("kill", 3, "ipc", ("half",))
    silent = killed()
    del silent.results[1]
    (finding,) = OF["kill"].findings(program, silent)
    assert not finding.is_met
    assert "rank 1 got no error" in finding.words


# ---- the run ----


def test_all_ranks_get_the_first_gpu_that_is_seen():
    program = Program("bits", 3, "ipc")
    assert variables_of(program, {})["CUDA_VISIBLE_DEVICES"] == "0,0,0"
    seen = variables_of(program, {"CUDA_VISIBLE_DEVICES": "2,1"})
    assert seen["CUDA_VISIBLE_DEVICES"] == "2,2,2"
    assert (seen["TNT_GPUS_PER_NODE"], seen["TNT_GPU_SUMS"]) == ("3", "ipc")
    assert "-n 3" in shlex.join(start_words(program))


def test_a_program_without_an_answer_is_told_and_stops_nothing(capsys, tmp_path):
    report = Report(A_GPU, {"benchmark": "gpu"}, tmp_path / "rows.jsonl")
    hung = Ended(None, "a\nlast words\n", {}, 1.0)
    report.add(OF["bits"], Program("bits", 2, "ipc", limit_s=7), hung)
    report.add(OF["order"], Program("order"), seen(0, 0, 7))
    printed = capsys.readouterr().out
    assert "FAILED: bits, 2 ranks, ipc: not done within 7 s\n  a\n  last words\n" in printed
    assert len(report.missed) == 2
    rows = list(map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines()))
    assert [row.get("part") for row in rows] == [None, "order", "order"]


def test_an_answer_needs_all_ranks_and_the_right_end():
    bits = Program("bits", 2, "ipc")
    assert bits.has_answered(ended({}, {}))
    assert not bits.has_answered(ended({}))
    assert not bits.has_answered(ended({}, {}, status=1))
    (kill, *_) = OF["kill"].programs(SMALL)
    assert kill.has_answered(Ended(137, "", {2: {}}, 1.0))
    assert not kill.has_answered(Ended(137, "", {0: {}, 1: {}}, 1.0))


def test_times_are_judged_on_a_gpu_only(capsys):
    slow = copied(shared_ms=4.0)
    for driver, num_missed in ((A_GPU, 2), (Driver(STAND_IN, 13000), 0)):
        report = Report(driver, {"benchmark": "gpu"}, None)
        report.add(OF["copies"], Program("copies"), slow)
        assert len(report.missed) == num_missed
        lines = capsys.readouterr().out.splitlines()
        assert all(line.startswith("stand-in | ") == driver.is_stand_in for line in lines)


def with_variables(variables, command):
    return " ".join([*(f"{name}={shlex.quote(text)}" for name, text in variables.items()), command])


def test_without_a_driver_it_says_what_it_needs(tmp_path):
    variables = {"TNT_CUDA_LIBRARY": str(tmp_path / "none.so")}
    finished = run_command(with_variables(variables, "python -m benchmarks.gpu"))
    assert finished.status == 1
    assert finished.messages.startswith("This benchmark needs a GPU.")
    assert "none.so" in finished.messages


def test_results_of_the_stand_in_are_not_stored(tmp_path):
    file = tmp_path / "rows.jsonl"
    command = f"python -m benchmarks.gpu --small --json {file}"
    finished = run_command(with_variables(fake_gpus(), command))
    assert finished.status == 1
    assert "--json is refused. NOT A GPU" in finished.messages
    assert not file.exists()


def test_all_parts_run_with_the_stand_in():
    finished = run_command(with_variables(fake_gpus(), "python -m benchmarks.gpu --small"))
    assert finished.status == 0, finished.output + finished.messages
    lines = finished.output.splitlines()
    assert all(line.startswith("stand-in | ") for line in lines)
    assert "NOT A GPU" in lines[0]
    texts = [line.removeprefix("stand-in | ") for line in lines]
    rows = [json.loads(text) for text in texts if text.startswith("{")]
    assert list(dict.fromkeys(row["part"] for row in rows)) == [part.name for part in PARTS]
    assert not any(text.startswith(("MISSED", "FAILED")) for text in texts)
    bits = [row for row in rows if row["part"] == "bits"]
    assert [(row["ranks"], row["sums"], row["num_wrong"]) for row in bits] == [
        (2, "ipc", 0),
        (2, "host", 0),
    ]
    assert all(row["elements"] > 2 * SMALL.num_patterns for row in bits)
    assert len([row for row in rows if row["part"] == "kill"]) == 2
    measured = {name for row in rows for name, value in row.items() if isinstance(value, list)}
    assert {name for name in measured if quantity_of(name) is None} == set()
