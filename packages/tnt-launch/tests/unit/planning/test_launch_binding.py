"""Ranks are kept on CPUs that they may use, as far as possible on ones of their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.errors import LaunchError
from tnt_launch.planning.binding import bind
from tnt_launch.planning.devices import Cpu
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.spec import LaunchSpec


def host(nodes=2, cores=4, threads=2, packages=None, **known):
    """A host numbered as usual: the second threads of all cores come behind the first ones."""
    total = nodes * cores
    packages = packages or nodes
    cpus = [
        Cpu(thread * total + core, core, core * packages // total, core // cores)
        for thread in range(threads)
        for core in range(total)
    ]
    return HostFacts("alpha", len(cpus), cpus=tuple(sorted(cpus)), **known)


def bound(hardware, size, uses_gpus=False, **options):
    return bind(LaunchSpec(("a.py",), **options), hardware, size, uses_gpus)


def sets_of(*arguments, **options):
    return [rank.cpus for rank in bound(*arguments, **options).ranks]


def threads_of(*arguments, **options):
    return [rank.threads for rank in bound(*arguments, **options).ranks]


HARDWARE = st.builds(
    host, nodes=st.integers(1, 4), cores=st.integers(1, 6), threads=st.integers(1, 2)
)


@pytest.mark.parametrize(
    ("size", "sets"),
    [
        (1, [tuple(range(16))]),
        (2, [(0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)]),
        (3, [(0, 1, 8, 9), (2, 3, 4, 10, 11, 12), (5, 6, 7, 13, 14, 15)]),
        (8, [(core, core + 8) for core in range(8)]),
    ],
)
def test_cores_are_divided_in_blocks_with_all_their_threads(size, sets):
    assert sets_of(host(), size, bind_to="core") == sets


def test_blocks_follow_the_nodes_where_numbers_alternate_between_them():
    cpus = tuple(Cpu(number, number, number % 2, number % 2) for number in range(8))
    assert sets_of(HostFacts("alpha", 8, cpus=cpus), 2, bind_to="core") == [
        (0, 2, 4, 6),
        (1, 3, 5, 7),
    ]


@given(HARDWARE, st.integers(1, 30), st.sampled_from(["core", "numa", "socket"]), st.data())
def test_ranks_get_cpus_that_they_may_use_and_cores_of_their_own(hardware, size, bind_to, data):
    allowed = data.draw(st.sets(st.sampled_from(hardware.cpus), min_size=1))
    hardware = HostFacts("alpha", len(allowed), cpus=tuple(sorted(allowed)))
    num_cores = len({cpu.core for cpu in allowed})
    if bind_to == "core" and size > num_cores:
        with pytest.raises(LaunchError, match=f"Give -n {num_cores} or less"):
            bound(hardware, size, bind_to=bind_to)
        return
    ranks = bound(hardware, size, bind_to=bind_to).ranks
    numbers = {cpu.number for cpu in allowed}
    assert len(ranks) == size
    assert all(set(rank.cpus) <= numbers and rank.cpus for rank in ranks)
    core_of = {cpu.number: cpu.core for cpu in allowed}
    used = [{core_of[number] for number in rank.cpus} for rank in ranks]
    if bind_to == "core":
        assert sum(map(len, used)) == num_cores  # disjoint, and none is left over
        assert max(map(len, used)) - min(map(len, used)) <= 1
    busy = sum(rank.threads for rank in ranks)
    assert busy <= num_cores or {rank.threads for rank in ranks} == {1}


@pytest.mark.parametrize(
    ("size", "nodes"), [(1, [0]), (2, [0, 2]), (4, [0, 1, 2, 3]), (5, [0, 0, 1, 2, 3]), (8, None)]
)
def test_ranks_are_spread_over_nodes_in_blocks(size, nodes):
    hardware = host(nodes=4, cores=2, threads=1)
    nodes = nodes or [rank // 2 for rank in range(8)]
    expected = [(2 * node, 2 * node + 1) for node in nodes]
    assert sets_of(hardware, size, bind_to="numa") == expected


def test_a_socket_may_have_several_nodes():
    hardware = host(nodes=4, cores=1, threads=1, packages=2)
    assert sets_of(hardware, 2, bind_to="socket") == [(0, 1), (2, 3)]
    assert sets_of(hardware, 2, bind_to="numa") == [(0,), (2,)]


@pytest.mark.parametrize(
    ("hardware", "size", "uses_gpus", "is_bound"),
    [
        (host(), 2, False, True),
        (host(), 4, False, True),
        (host(), 1, False, False),  # it would lose half of the cores
        (host(), 3, False, False),
        (host(nodes=1), 2, False, False),
        (host(), 2, True, False),
        (HostFacts("alpha", 8), 2, False, False),
        (HostFacts("alpha", 8, cpus=host().cpus), 2, False, False),  # a quota
        (HostFacts("alpha", 15, cpus=host().cpus[:15]), 2, False, True),  # all cores are there
        (HostFacts("alpha", 7, cpus=host(threads=1).cpus[:7]), 2, False, False),
    ],
)
def test_by_default_ranks_are_kept_on_nodes_if_that_is_fair(hardware, size, uses_gpus, is_bound):
    unbound = [()] * size
    found = sets_of(hardware, size, uses_gpus)
    assert (found != unbound) == is_bound
    if is_bound:
        assert found == sets_of(hardware, size, bind_to="numa")
    assert sets_of(hardware, size, uses_gpus, bind_to="none") == unbound


def test_threads_are_the_physical_cores_of_a_rank():
    assert threads_of(host(), 2, bind_to="core") == [4, 4]
    assert threads_of(host(), 3, bind_to="core") == [2, 2, 2]  # those of the smallest block
    assert threads_of(host(), 4, bind_to="numa") == [2] * 4
    assert threads_of(host(), 16, bind_to="numa") == [1] * 16
    assert threads_of(host(), 1, bind_to="socket") == [4]
    quota = HostFacts("alpha", 4, cpus=host().cpus)
    assert threads_of(quota, 2, bind_to="core") == [2, 2]


def test_threads_of_ranks_that_are_not_bound_share_all_cpus():
    assert threads_of(host(), 1) == [None]
    assert threads_of(host(), 4, bind_to="none") == [4] * 4
    assert threads_of(HostFacts("alpha", 8), 3) == [2] * 3


def test_places_are_told_in_words():
    assert bound(host(), 2, bind_to="core").ranks[1].place == "cpus 4-7,12-15 (NUMA node 1)"
    assert bound(host(), 1, bind_to="core").ranks[0].place == "cpus 0-15 (NUMA nodes 0-1)"
    assert bound(host(nodes=1), 2).ranks[0].place == "not bound"


NUMACTL = {"has_numactl": True}


@pytest.mark.parametrize(
    ("options", "prefix", "place", "threads"),
    [
        (
            ["pin_to_socket"],
            ["--cpunodebind=1", "--physcpubind=4-7,12-15", "--preferred=1"],
            "cpus 4-7,12-15 (NUMA node 1)",
            4,
        ),
        (["pin_memory_to_socket"], ["--membind=1"], "memory of NUMA node 1", 8),
        (
            ["pin_to_socket", "pin_memory_to_socket"],
            ["--cpunodebind=1", "--physcpubind=4-7,12-15", "--membind=1"],
            "cpus 4-7,12-15 (NUMA node 1)",
            4,
        ),
    ],
)
def test_numactl_keeps_each_rank_on_a_node(options, prefix, place, threads):
    pinned = bound(host(**NUMACTL), 2, **dict.fromkeys(options, True))
    rank = pinned.ranks[1]
    assert rank.prefix == ("numactl", *prefix)
    assert (rank.cpus, rank.place, rank.threads) == ((), place, threads)
    assert pinned.warning == ""


def test_numactl_gets_the_nodes_that_the_process_may_use():
    cpus = tuple(cpu for cpu in host(nodes=4).cpus if cpu.node in (1, 3))
    pinned = bound(HostFacts("alpha", len(cpus), cpus=cpus, **NUMACTL), 2, pin_to_socket=True)
    assert [rank.prefix[1] for rank in pinned.ranks] == ["--cpunodebind=1", "--cpunodebind=3"]


@pytest.mark.parametrize("option", ["pin_to_socket", "pin_memory_to_socket"])
def test_more_ranks_than_nodes_cannot_be_pinned_and_fewer_give_a_warning(option):
    with pytest.raises(LaunchError, match=r"alpha has 2 for 3 ranks\. Give -n 2 or less"):
        bound(host(**NUMACTL), 3, **{option: True})
    warning = bound(host(**NUMACTL), 1, **{option: True}).warning
    assert "2 NUMA nodes, of which 1 stay idle" in warning


def test_a_missing_numactl_is_named():
    with pytest.raises(LaunchError, match="the program numactl, which alpha does not have"):
        bound(host(), 2, pin_to_socket=True)
