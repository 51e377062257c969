"""The simulation of training steps: closed formulas, bytes, its input files, and its command."""

import copy
import itertools
import json
import math

import pytest
from engines import LOOPBACK
from run_command import ROOT, run_command
from ucx_found import needs_ucx

from benchmarks.allreduce import gradient_sets
from benchmarks.simulate.embedding import compare_ways
from benchmarks.simulate.layers import LAYERS, gradients_of
from benchmarks.simulate.machine import costs_of, machine, machine_from, software, software_from
from benchmarks.simulate.measured import measured_once
from benchmarks.simulate.predictions import PREDICTIONS, predict_all
from benchmarks.simulate.published import compare, names_of_series, series
from benchmarks.simulate.replay import Costs, Job, replay
from benchmarks.simulate.schedules import formula, vectors_sent
from benchmarks.simulate.simgrid import NOT_INSTALLED, is_installed, simulate
from benchmarks.simulate.sourced import WrongInput, read
from benchmarks.simulate.step import (
    Layout,
    expected_maximum,
    fused_by_cycle,
    make_job,
    predict,
    without_host,
    without_thread,
)
from benchmarks.simulate.timeline import gradients_in
from tarantella.measure.__main__ import measure
from tnt_comm.testing import Host, Trace, TraceEvent, run_ranks

LOGGP = Costs(latency=5e-6, gap=1e-9, send=2e-6, receive=3e-6)
MACHINES = sorted(path.stem for path in (ROOT / "benchmarks/simulate/machines").glob("*.toml"))
SOFTWARE_FILES = sorted(
    path.stem for path in (ROOT / "benchmarks/simulate/software").glob("*.toml")
)


def one_bucket(num_ranks, ranks_per_host, num_elements, **options):
    return Job(num_ranks, ranks_per_host, [num_elements], [0.0], **options)


def resnet50_on(layout, **options):
    gradients = gradients_of("resnet50")
    sizes, shares = gradients.num_elements, gradients.ready_share
    return Job(layout.num_ranks, layout.ranks_per_host, sizes, shares, **options)


# The replay


def test_one_message_each_way_takes_the_time_of_loggp():
    # One shot: both send the whole vector at once, and add what comes.
    outcome = replay(LOGGP, one_bucket(2, 1, 1000, algorithm="one_shot"))
    assert outcome.buckets == [(4000, "one_shot")]
    assert outcome.end_s == pytest.approx(2e-6 + 5e-6 + 4000e-9 + 3e-6, rel=1e-12)


def test_two_halves_that_are_exchanged_twice_take_the_time_of_loggp():
    costs = Costs(latency=5e-6, gap=1e-9, send=2e-6, receive=3e-6, combine_gap=2e-9)
    outcome = replay(costs, one_bucket(2, 1, 1024, algorithm="two_shot"))
    message_s = 2e-6 + 5e-6 + 2048e-9 + 3e-6
    assert outcome.end_s == pytest.approx(2 * message_s + 2048 * 2e-9, rel=1e-12)
    assert outcome.thread_busy_s == pytest.approx(2 * 5e-6 + 2048 * 2e-9, rel=1e-12)


def test_a_ring_takes_the_time_of_its_formula():
    size, num_bytes = 8, 8 * 4096
    outcome = replay(LOGGP, one_bucket(size, 1, num_bytes // 4, algorithm="ring"))
    step_s = 2e-6 + 5e-6 + num_bytes / size * 1e-9 + 3e-6
    assert outcome.end_s == pytest.approx(2 * (size - 1) * step_s, rel=1e-12)


def test_ranks_of_a_host_share_its_memory():
    costs = Costs(memory_gap=1e-10)
    one_host = [replay(costs, one_bucket(ranks, ranks, 1 << 20)).end_s for ranks in (2, 4)]
    # Each byte is read by one rank and written to all, which reads what it overwrites.
    traffic = [(q + 2) + (1 + 2 * q) for q in (2, 4)]
    assert one_host == pytest.approx([4 * (1 << 20) * 1e-10 * each for each in traffic])


def test_gradients_of_devices_go_up_and_down():
    costs = Costs(up_gap=1e-9, down_gap=2e-9)
    outcome = replay(costs, one_bucket(2, 1, 1000))
    assert outcome.end_s == pytest.approx(4000 * 3e-9)


def test_a_sum_is_handed_out_when_all_gradients_have_been_started():
    job = Job(2, 1, [1 << 20, 1 << 20], [1.0, 0.0], threshold_bytes=0)
    assert replay(LOGGP, job).end_s > 1
    assert replay(Costs(pack_gap=1e-9), job).end_s == pytest.approx(1 + 3 * 4 * (1 << 20) * 1e-9)


@pytest.mark.parametrize(
    "layout",
    [Layout(2, 1), Layout(3, 1), Layout(8, 1), Layout(4, 4), Layout(4, 6), Layout(3, 2)],
    ids=str,
)
def test_a_host_sends_the_bytes_of_the_formula(layout):
    outcome = replay(LOGGP, resnet50_on(layout))
    assert outcome.card_bytes == pytest.approx(formula(outcome, layout), rel=1e-3)


@pytest.mark.parametrize("algorithm", ["two_shot", "halving_doubling", "pipelined", "ring"])
def test_split_sums_send_each_byte_twice_but_for_one_part(algorithm):
    for hosts in (2, 3, 6, 8):
        expected = 2 * (hosts - 1) / hosts
        assert vectors_sent(algorithm, Layout(hosts, 1)) == pytest.approx(expected)
        outcome = replay(Costs(), one_bucket(hosts, 1, 240 * 1024, algorithm=algorithm))
        assert outcome.card_bytes == pytest.approx(4 * 240 * 1024 * expected, rel=1e-3)


def test_two_levels_send_what_one_rank_per_host_would():
    flat, levels = (replay(Costs(), resnet50_on(Layout(4, q))) for q in (1, 4))
    assert levels.is_hierarchical
    assert not flat.is_hierarchical
    assert levels.card_bytes == pytest.approx(flat.card_bytes, rel=2e-2)


def test_six_ranks_per_host_have_one_level():
    # 16 x 6: six neighbours are no branch of the tree of 96.
    assert not replay(Costs(), one_bucket(96, 6, 1000)).is_hierarchical
    assert replay(Costs(), one_bucket(96, 8, 1000)).is_hierarchical


@pytest.mark.parametrize(
    ("layout", "algorithm"),
    [
        (Layout(8, 1), "auto"),
        (Layout(6, 1), "auto"),
        (Layout(4, 2), "auto"),
        (Layout(3, 4), "ring"),
    ],
    ids=str,
)
def test_one_host_stands_for_all(layout, algorithm):
    costs = costs_of(machine("original_cpu"), software("tnt"))
    job = resnet50_on(layout, algorithm=algorithm)
    every_host = resnet50_on(layout, algorithm=algorithm, is_every_host=True)
    folded, full = replay(costs, job), replay(costs, every_host)
    assert folded.end_s == pytest.approx(full.end_s, rel=1e-5)
    assert folded.card_bytes == pytest.approx(full.card_bytes, rel=1e-3)
    assert folded.messages_per_rank == full.messages_per_rank


def test_the_same_job_gives_the_same_bits():
    costs = costs_of(machine("ethernet_25"), software("tnt"))
    assert replay(costs, resnet50_on(Layout(2, 6))) == replay(costs, resnet50_on(Layout(2, 6)))


def test_wrong_jobs_are_told():
    with pytest.raises(ValueError, match="1 gradients and 2 times"):
        replay(Costs(), Job(2, 1, [1], [0.0, 0.0]))
    with pytest.raises(ValueError, match="num_ranks=5, ranks_per_host=2"):
        replay(Costs(), one_bucket(5, 2, 1))


# Models


def test_gradients_are_those_of_other_benchmarks():
    assert list(gradients_of("resnet50").num_elements) == gradient_sets.resnet50()
    assert list(gradients_of("transformer_big").num_elements) == gradient_sets.transformer_big()


@pytest.mark.parametrize(
    ("model", "parameters", "multiplications"),
    [
        ("resnet50", 25.56e6, 4.1e9),
        ("resnet101", 44.55e6, 7.8e9),
        ("vgg16", 138.36e6, 15.5e9),
        ("inception3", 23.8e6, 5.7e9),
    ],
)
def test_models_have_the_published_size(model, parameters, multiplications):
    assert sum(gradients_of(model).num_elements) == pytest.approx(parameters, rel=2e-3)
    assert sum(layer.flops for layer in LAYERS[model]()) == pytest.approx(multiplications, rel=0.01)


@pytest.mark.parametrize("model", LAYERS)
def test_gradients_become_ready_from_the_last_layer_on(model):
    shares = gradients_of(model).ready_share
    assert all(later >= sooner for later, sooner in itertools.pairwise(shares))
    assert shares[0] == pytest.approx(0.97)
    assert shares[-1] > 0.97 / 3


# A step


def test_the_largest_of_draws_is_that_of_tables():
    known = {1: 0, 2: 1 / math.sqrt(math.pi), 10: 1.53875, 100: 2.50759}
    assert [expected_maximum(n) for n in known] == pytest.approx(list(known.values()), abs=1e-4)


def test_parts_of_a_step_add_up():
    layout, on, how = Layout(4, 6), machine("original_gpu"), software("tnt")
    step = predict("transformer_big", 1.0, layout, on, how)
    assert step.outcome.end_s + 0.03 * (1 + step.stragglers_s) == pytest.approx(step.total_s)
    assert (
        step.total_s == predict("transformer_big", 1.0, layout, on, how, is_divided=False).total_s
    )
    free = without_thread(without_host(costs_of(on, how)))
    job = make_job(gradients_of("transformer_big"), 1 + step.stragglers_s, layout, how)
    computed_s = 0.97 * (1 + step.stragglers_s)
    assert replay(free, job).end_s - computed_s == pytest.approx(step.network_s)


def test_a_rank_alone_only_computes():
    step = predict("resnet50", 0.5, Layout(1, 1), machine("rdma_100"), software("tnt"))
    assert step.total_s == step.compute_s == 0.5


def test_what_is_ready_in_one_cycle_is_summed_together():
    horovod = software("horovod")
    sizes, started_s = fused_by_cycle([1, 2, 4, 8], [0.012, 0.011, 0.0101, 0.001], horovod)
    assert sizes == [7, 8]
    assert started_s == pytest.approx([0.016, 0.006])
    large = horovod.fusion_threshold_bytes // 4
    assert fused_by_cycle([large, 1], [0.001, 0.001], horovod)[0] == [1, large]


# Files


@pytest.mark.parametrize("name", MACHINES)
def test_machines_are_complete(name):
    assert machine(name).bytes_per_s > 1e9


@pytest.mark.parametrize("name", SOFTWARE_FILES)
def test_softwares_are_complete(name):
    assert software(name).fusion_threshold_bytes > 0


@pytest.mark.parametrize("section", [None, "network", "training"])
def test_an_unknown_key_of_a_machine_is_an_error(section):
    tables = copy.deepcopy(read("machines", "rdma_100"))
    (tables[section] if section else tables)["speed"] = {"value": 1, "source": "a guess"}
    with pytest.raises(WrongInput, match=r"unknown keys: speed\. Known: "):
        machine_from("mine", tables)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (None, "missing keys: jitter"),
        (0.1, "must have a value and a source. Received: 0.1"),
        ({"value": 0.1}, "missing keys: source"),
        ({"value": 0.1, "source": " "}, "has an empty source"),
        ({"value": -1, "source": "a guess"}, "not negative. Received: -1"),
        ({"value": "much", "source": "a guess"}, "must be a number"),
    ],
)
def test_a_number_without_its_source_is_an_error(entry, text):
    tables = copy.deepcopy(read("machines", "rdma_100"))
    if entry is None:
        del tables["training"]["jitter"]
    else:
        tables["training"]["jitter"] = entry
    with pytest.raises(WrongInput, match=text):
        machine_from("mine", tables)


def test_an_unknown_word_of_a_software_is_an_error():
    table = copy.deepcopy(read("software", "tnt"))
    table["order"]["value"] = "sideways"
    with pytest.raises(WrongInput, match=r"one of backward, forward\. Received: 'sideways'"):
        software_from("mine", table)


def test_an_unknown_file_is_told_with_the_known_ones():
    with pytest.raises(WrongInput, match=r"no `rdma_1` in machines\. Known: ethernet_25, "):
        machine("rdma_1")


# Published results and predictions


def test_replays_of_slow_links_have_the_steps_that_were_measured():
    for link in measured_once():
        assert abs(link.error) < 0.11, link
        assert abs(link.error_of_bytes) < 0.04, link


def test_all_points_of_the_original_are_compared_or_left_out_by_name():
    originals = [series(name) for name in names_of_series() if name.startswith("original")]
    assert sum(len(each.points) for each in originals) == 16
    assert sum(len(each.left_out) for each in originals) == 1


def test_a_baseline_of_several_ranks_is_what_the_model_gives_there():
    known = series("original_cpu_resnet50")
    assert known.baseline.layout == Layout(1, 4)
    again = compare(type(known)(**{**vars(known), "points": [known.baseline], "causes": {}}))
    assert again[0].error == pytest.approx(0, abs=1e-6)


def test_hosts_of_six_send_what_is_least_if_their_ranks_are_summed_first():
    hosts = 16
    outcomes = [
        replay(Costs(), resnet50_on(Layout(hosts, 6), is_host_first=which))
        for which in (False, True)
    ]
    assert [outcome.is_hierarchical for outcome in outcomes] == [False, True]
    least = 2 * (hosts - 1) / hosts * 4 * sum(gradients_of("resnet50").num_elements)
    assert outcomes[0].card_bytes / least > 1.7
    assert outcomes[1].card_bytes / least < 1.05


def test_rows_of_all_ranks_are_more_than_the_sum_of_a_shared_embedding():
    few, *_, many = compare_ways()
    assert few.layout.num_ranks < many.layout.num_ranks
    assert many.rows_s > 2 * many.now_s
    for each in (few, many):
        assert each.updates_s < each.now_s


@pytest.mark.skipif(not is_installed(), reason=NOT_INSTALLED)
@pytest.mark.parametrize("hosts", [3, 8])
def test_simgrid_takes_as_long_for_the_same_messages(hosts):
    assert abs(simulate("resnet50", 0.05, hosts).error) < 1e-3


def trace_of(*steps):
    """Steps of rank 0 by begin and end, with the time at which each bucket is ready in it."""
    events = []
    for begin, end, ready in steps:
        events.append(TraceEvent(0, "1 main thread", "phase", "training step", begin, end, {}))
        for bucket, (when, size) in ready.items():
            row = f"{bucket} bucket {bucket} of 'gradients' ('layer')"
            events.append(TraceEvent(0, row, "bucket", "ready", when, when + 1, {"bytes": size}))
    return Trace((), {}, tuple(events))


def test_gradients_of_a_trace_are_ready_at_their_median_share_of_a_step():
    buckets = {0: (90, 400), 1: (50, 80)}
    others = [(200, 300, {0: (280, 400), 1: (260, 80)}), (400, 600, {0: (580, 400), 1: (520, 80)})]
    compiling = [(-900, -500, {0: (-600, 400)}), (-400, -100, {1: (-300, 80)})]
    found = gradients_in(trace_of(*compiling, (0, 100, buckets), *others), "trace.json")
    assert found.num_elements == (100, 20)  # the last variable's is ready first
    assert found.ready_share == pytest.approx((0.9, 0.6))


@pytest.mark.parametrize(
    ("steps", "why"), [(2, "3 training steps or more"), (3, "no buckets of gradients")]
)
def test_a_trace_that_tells_nothing_of_gradients_is_refused(steps, why):
    with pytest.raises(WrongInput, match=why):
        gradients_in(trace_of(*[(10 * i, 10 * i + 9, {}) for i in range(steps)]), "trace.json")


def test_predictions_name_what_is_in_their_file(tmp_path):
    file = tmp_path / "predictions.toml"
    file.write_text(
        """
        [[cluster]]
        title = "mine"
        machine = "original_gpu"
        model = "resnet50"
        step_s = { value = 0.2, source = "a guess" }
        ranks_per_host = 4
        hosts = [1, 2]
        steps_per_epoch = 100
        is_host_first = false
        [[network]]
        title = "ours"
        machines = ["rdma_100", "rdma_400"]
        model = "resnet50"
        step_s = { value = 0.2, source = "a guess" }
        ranks_per_host = 2
        ranks = [2, 4]
        """
    )
    groups = list(predict_all(file))
    assert [[str(each.layout) for each in group] for group in groups] == [["1x4", "2x4"]] + 2 * [
        ["1x2", "2x2"]
    ]
    for each in itertools.chain(*groups):
        low, high = each.band
        assert 0 < low <= each.speedup <= high < each.layout.num_ranks
        assert sum(each.losses_s.values()) == pytest.approx(each.total_s)
    file.write_text(PREDICTIONS.read_text().replace("ranks_per_host", "gpus_per_host"))
    with pytest.raises(WrongInput, match="unknown keys: gpus_per_host"):
        next(predict_all(file))


def test_the_benchmark_compares_published_results(tmp_path):
    file = tmp_path / "rows.jsonl"
    finished = run_command(
        f"python -m benchmarks.simulate --parts bytes measured published --json {file}"
    )
    assert finished.status == 0, finished.output + finished.messages
    assert "published points within 10%" in finished.output
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert header["benchmark"] == "simulate"
    assert len(rows) == 20 + 16 + 22
    assert all(math.isfinite(row["error"]) for row in rows)


WANTED = """
[[cluster]]
title = "mine"
machine = "{machine}"
model = "resnet50"
step_s = {{ value = 0.2, source = "a guess" }}
ranks_per_host = 2
hosts = [1, 2]
steps_per_epoch = 100
is_host_first = false
"""


def test_what_tarantella_measures_is_what_predictions_take(tmp_path):
    machine_file, wanted = tmp_path / "machine.toml", tmp_path / "wanted.toml"
    measured = run_command(f"tarantella measure -n 2 --output {machine_file}")
    assert measured.status == 0, measured.messages
    assert "no network was measured" in measured.messages
    wanted.write_text(WANTED.format(machine=machine_file))
    (group,) = predict_all(wanted)
    assert [each.layout.num_ranks for each in group] == [2, 4]
    assert all(0 < each.speedup <= each.layout.num_ranks for each in group)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("hosts = [1, 2]", "hosts = [0]", "must be 1 or more"),
        ("ranks_per_host = 2", "ranks_per_host = -4", "must be 1 or more"),
        ("value = 0.2", "value = -1", "`step_s` must be above 0"),
        ("value = 0.2", "value = nan", "`step_s` must be above 0"),
    ],
)
def test_predictions_of_nonsense_are_refused(before, after, why, tmp_path):
    wanted = tmp_path / "wanted.toml"
    wanted.write_text(WANTED.format(machine="rdma_100").replace(before, after))
    with pytest.raises(WrongInput, match=why):
        list(predict_all(wanted))


def test_an_output_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path):
    finished = run_command(f"tarantella measure -n 2 --output {tmp_path}/missing/machine.toml")
    assert finished.status == 1
    assert f"the folder of --output does not exist: '{tmp_path}/missing'" in finished.messages


@needs_ucx
def test_the_network_is_measured_between_two_hosts():
    env = {"TNT_TRANSPORT": "ucx", **LOOPBACK}
    for found in run_ranks(measure, 4, env=env, hosts=(Host(2), Host(2)), timeout_s=120):
        assert (found.hosts, found.ranks_per_host) == (2, 2)
    first, *_, last = run_ranks(measure, 2, env=env, hosts=(Host(1), Host(1)), timeout_s=120)
    assert first.network is not None
    assert last.network is not None
    for number in ("bytes_per_s", "send_s", "thread_s_per_byte"):
        assert first.network[number] > 0
    assert first.host["memory_bytes_per_s"] >= first.host["copy_bytes_per_s"]
