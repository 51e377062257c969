"""Lanes are on ranks that can share them, with the same threads whatever their number."""

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.launch import with_fewer_hosts
from tnt_launch.planning.cpus import Cpu
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.lanes import hosts_that_fit, valid_sizes
from tnt_launch.planning.plan import make_plan
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import LaunchSpec

TWO_NODES = tuple(Cpu(number, number, number // 4, number // 4) for number in range(8))


def plan_of(*cores, environment=None, cpus=(), slots=None, **options):
    """The plan of a job with four lanes on hosts of so many cores."""
    environment = {"TNT_LANES": "4", **(environment or {})}
    hosts = [HostFacts(f"node{n}", count, (), cpus, True) for n, count in enumerate(cores)]
    names = tuple(HostSlots(host.host, slots) for host in hosts) if len(hosts) > 1 else ()
    spec = LaunchSpec(program=("a.py",), hosts=names, **options)
    return make_plan(spec, read_settings(spec, environment), hosts, environment, "0" * 16)


def threads_of(plan):
    """Threads of an operation, and operations at a time, of each rank."""
    names = ("TNT_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")
    found = []
    for rank in plan.ranks:
        (threads,) = {rank.environment[name] for name in names}
        found.append((int(threads), int(rank.environment["TF_NUM_INTEROP_THREADS"])))
    return found


@pytest.mark.parametrize(
    ("lanes", "sizes"),
    [
        (1, [1]),
        (2, [1, 2]),
        (4, [1, 2, 4]),
        (6, [1, 3, 6]),
        (8, [1, 2, 4, 8]),
        (9, [1, 3, 9]),
        (12, [1, 3, 6, 12]),
        (7, [1, 7]),
        (2**31 - 1, [1, 2**31 - 1]),
    ],
)
def test_lanes_of_a_rank_are_a_branch_of_the_tree_of_sums(lanes, sizes):
    assert valid_sizes(lanes) == sizes


def test_other_numbers_of_ranks_are_refused_and_the_valid_ones_told():
    with pytest.raises(LaunchError, match="4 lanes can be on 1, 2 or 4 ranks, not on 3"):
        plan_of(8, ranks_per_node=3)
    with pytest.raises(LaunchError, match="4 lanes can be on 1, 2 or 4 ranks, not on 8"):
        plan_of(8, 8, ranks_per_node=4)


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("TNT_SUM_TREE", "2", "TNT_SUM_TREE must not be set"),
        ("TNT_WIRE_DTYPE", "bfloat16", "4 lanes and wire dtype bfloat16. Remove --wire-dtype"),
    ],
)
def test_what_lanes_exclude_is_refused(variable, value, why):
    with pytest.raises(LaunchError, match=why):
        plan_of(8, ranks_per_node=2, environment={variable: value})


def test_a_wire_dtype_of_none_is_no_other():
    assert len(plan_of(8, environment={"TNT_WIRE_DTYPE": "none"}).ranks) == 1


@pytest.mark.parametrize(
    ("cores", "ranks", "threads", "at_a_time"),
    [
        (16, 1, 4, 4),  # all four lanes side by side
        (16, 2, 4, 2),
        (16, 4, 4, 2),  # one lane, and one thread for the rest
        (2, 1, 1, 2),
        (2, 4, 1, 2),
        (64, 1, 16, 4),
    ],
)
def test_an_operation_has_the_same_threads_for_any_number_of_ranks(
    cores, ranks, threads, at_a_time
):
    assert threads_of(plan_of(cores, ranks_per_node=ranks)) == [(threads, at_a_time)] * ranks


def test_threads_do_not_depend_on_what_ranks_are_kept_on_but_operations_do():
    unbound = plan_of(8, ranks_per_node=1, cpus=TWO_NODES, bind_to="none")
    bound = plan_of(8, ranks_per_node=1, cpus=TWO_NODES, bind_to="numa")
    assert (threads_of(unbound), threads_of(bound)) == ([(2, 4)], [(2, 2)])


def test_threads_that_the_user_states_are_those_of_a_lane():
    own = {"TNT_NUM_THREADS": "3"}
    assert threads_of(plan_of(16, ranks_per_node=2, environment=own)) == [(3, 2)] * 2
    assert threads_of(plan_of(16, ranks_per_node=1, environment=own)) == [(3, 4)]
    found = plan_of(16, environment={"TF_NUM_INTRAOP_THREADS": "5"}).ranks[0].environment
    assert found["TNT_NUM_THREADS"] == "5"
    assert "TF_NUM_INTRAOP_THREADS" not in found  # inherited


def test_hosts_of_unequal_cores_have_the_threads_of_the_smallest_and_that_is_told():
    plan = plan_of(8, 16, ranks_per_node=1)
    assert threads_of(plan) == [(2, 2), (2, 2)]
    (warning,) = plan.warnings
    assert "between 8 and 16 cores" in warning
    assert "TNT_NUM_THREADS=2" in warning
    assert plan_of(8, 9, ranks_per_node=1).warnings == ()
    assert plan_of(8, 16, ranks_per_node=1, environment={"TNT_NUM_THREADS": "2"}).warnings == ()


def test_a_restarted_job_keeps_its_threads_on_other_hosts():
    before = plan_of(8, 16, ranks_per_node=1)
    spec = LaunchSpec(program=("a.py",), ranks_per_node=1).restarted(1, before.lane_threads)
    host = HostFacts("node1", 16)
    plan = make_plan(spec, read_settings(spec, {"TNT_LANES": "4"}), [host], {}, "0" * 16)
    assert threads_of(plan) == [(2, 4)]


def test_sets_have_the_same_order_in_all_jobs():
    environments = [plan_of(8, ranks_per_node=size).ranks[0].environment for size in (1, 2)]
    assert [found["PYTHONHASHSEED"] for found in environments] == ["0", "0"]


def test_the_summary_tells_lanes_and_their_threads():
    assert plan_of(8, ranks_per_node=2).summary() == (
        "2 ranks on node0, device CPU, 4 lanes, threads per lane: 2"
    )


def test_a_line_of_the_bindings_tells_the_lanes_of_a_rank():
    lines = [rank.binding() for rank in plan_of(8, ranks_per_node=2).ranks]
    assert lines[1] == "rank 1 on node0: not bound, lanes 2-3 of 2 threads, no GPU"
    last = plan_of(4, ranks_per_node=4).ranks[3].binding()
    assert last == "rank 3 on node0: not bound, lane 3 of 1 thread, no GPU"


def fitted(lanes, per_host, min_ranks=1):
    hosts = [HostSlots(name) for name in "abcdefgh"[: len(per_host)]]
    return {host.name: host.slots for host in hosts_that_fit(hosts, per_host, lanes, min_ranks)}


@pytest.mark.parametrize(
    ("lanes", "per_host", "expected"),
    [
        (8, (2, 2, 2), {"a": 2, "b": 2}),
        (4, (2, 2), {"a": 2, "b": 2}),
        (8, (2, 2, 2, 1), {"a": 1, "b": 1, "c": 1, "d": 1}),
        (4, (1, 1, 1), {"a": 1, "b": 1}),
        (4, (1, 3), {"a": 1, "b": 3}),
        (6, (1, 2, 2), {"a": 1, "b": 1, "c": 1}),
        (12, (3, 1, 3), {"a": 3, "c": 3}),
        (6, (4,), {"a": 3}),
        (7, (2, 2), {"a": 1}),
    ],
)
def test_hosts_that_are_left_get_the_most_ranks_that_are_valid(lanes, per_host, expected):
    assert fitted(lanes, per_host) == expected


def test_fewer_ranks_than_the_user_wants_are_refused():
    with pytest.raises(LaunchError, match=r"1, 3 or 6 ranks: of the 2 .* fewer than --min-ranks 2"):
        fitted(6, (1, 1), min_ranks=2)


def left_of(environment, **options):
    hosts = tuple(HostSlots(name, options.pop("slots", None)) for name in "abc")
    spec = LaunchSpec(program=("a.py",), hosts=hosts, max_restarts=1, min_ranks=1, **options)
    left = {host: HostFacts(host.name, 4) for host in hosts[:-1]}
    return with_fewer_hosts(spec, read_settings(spec, environment), left)


def test_a_job_that_lost_a_host_goes_on_with_lanes_on_a_valid_number_of_ranks():
    spec = left_of({"TNT_LANES": "6"}, ranks_per_node=2)
    assert [(host.name, host.slots) for host in spec.hosts] == [("a", 2), ("b", 1)]
    assert spec.ranks_per_node is None
    facts = [HostFacts(host.name, 4) for host in spec.hosts]
    plan = make_plan(spec, read_settings(spec, {"TNT_LANES": "6"}), facts, {}, "0" * 16)
    assert [rank.host for rank in plan.ranks] == ["a", "a", "b"]


def test_a_job_without_lanes_keeps_all_ranks_of_the_hosts_that_are_left():
    spec = left_of({}, ranks_per_node=2)
    assert [host.name for host in spec.hosts] == ["a", "b"]
    assert spec.ranks_per_node == 2
