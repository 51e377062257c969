"""Ranks are kept on CPUs that they may use, as far as possible on ones of their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_host import MadeUpHost

from tnt_launch.errors import LaunchError
from tnt_launch.planning.binding import bind
from tnt_launch.planning.cpus import Cpu, describe_cpus
from tnt_launch.planning.gpu_drivers import Gpu, nvidia_gpus
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
        (host(gpus=(Gpu("0"), Gpu("1"))), 2, True, False),  # where they are is not known
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


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A host of made-up files, without nvidia-smi; `facts` are what the launcher sees of it."""
    monkeypatch.setenv("PATH", "")
    return MadeUpHost(tmp_path)


def facts(made_up, allowed, num_cores=None):
    cpus = describe_cpus(set(allowed), made_up.root / "sys/devices/system")
    gpus = tuple(one.gpu for one in nvidia_gpus(made_up.root))
    return HostFacts("alpha", num_cores or len(cpus), gpus, cpus)


def add_gpus(made_up, nodes):
    for number, node in enumerate(nodes):
        made_up.add_nvidia_gpu(f"0000:{number:02x}:00.0", node, f"GPU-{number}")


def two_sockets(made_up):
    """Two sockets of 16 cores with two threads each, and four GPUs near each."""
    made_up.add_nodes("0-15,32-47", "16-31,48-63")
    made_up.add_cores(32, threads=2, cores_of_package=16)
    add_gpus(made_up, [0, 0, 0, 0, 1, 1, 1, 1])


def cpus_between(*ranges):
    return tuple(number for first, last in ranges for number in range(first, last + 1))


def test_ranks_are_kept_on_the_node_of_their_gpu_and_share_its_cores(made_up):
    two_sockets(made_up)
    found = bound(facts(made_up, range(64)), 8, uses_gpus=True)
    first, second = cpus_between((0, 15), (32, 47)), cpus_between((16, 31), (48, 63))
    assert [rank.cpus for rank in found.ranks] == [first] * 4 + [second] * 4
    assert {rank.threads for rank in found.ranks} == {16 // 4}
    assert found.ranks[7].place == "cpus 16-31,48-63 (NUMA node 1)"
    fewer = bound(facts(made_up, range(64)), 2, uses_gpus=True)
    assert [rank.cpus for rank in fewer.ranks] == [first] * 2
    assert {rank.threads for rank in fewer.ranks} == {16 // 2}


@pytest.mark.parametrize(
    ("bind_to", "size", "last"),
    [
        ("core", 8, [(28, 31), (60, 63)]),
        ("core", 4, [(12, 15), (44, 47)]),  # all four are near the first node
        ("core", 5, [(16, 31), (48, 63)]),
        ("numa", 8, [(16, 31), (48, 63)]),
        ("socket", 8, [(16, 31), (48, 63)]),
        ("none", 8, []),
    ],
)
def test_words_of_bind_to_mean_cores_near_the_gpu(made_up, bind_to, size, last):
    two_sockets(made_up)
    sets = sets_of(facts(made_up, range(64)), size, uses_gpus=True, bind_to=bind_to)
    assert sets[-1] == cpus_between(*last)
    if bind_to == "core":
        used = [number for cpus in sets for number in cpus]
        assert len(used) == len(set(used)) == (64 if size > 4 else 32)


def test_gpus_in_any_order_get_the_cores_that_are_near_them(made_up):
    made_up.add_nodes(*(f"{4 * node}-{4 * node + 3}" for node in range(8)))
    made_up.add_cores(32, cores_of_package=16)
    add_gpus(made_up, [3, 1, 0, 2, 7, 5, 4, 6])
    found = facts(made_up, range(32))
    assert sets_of(found, 8, uses_gpus=True) == [
        cpus_between((4 * node, 4 * node + 3)) for node in (3, 1, 0, 2, 7, 5, 4, 6)
    ]
    assert threads_of(found, 8, uses_gpus=True) == [4] * 8
    sockets = sets_of(found, 8, uses_gpus=True, bind_to="socket")
    assert sockets == [cpus_between((0, 15))] * 4 + [cpus_between((16, 31))] * 4


@pytest.mark.parametrize(
    ("nodes", "size", "is_bound"),
    [
        ([3, 3, 1, 1, 7, 7, 5, 5], 8, True),  # 2 of 4 cores for each: just half
        ([0] * 8, 8, False),
        ([0], 1, False),  # 4 of 32
        ([0, 4], 2, False),
    ],
)
def test_ranks_that_would_lose_most_of_their_cores_are_not_bound(made_up, nodes, size, is_bound):
    made_up.add_nodes(*(f"{4 * node}-{4 * node + 3}" for node in range(8)))
    made_up.add_cores(32)
    add_gpus(made_up, nodes)
    (first, *_) = bound(facts(made_up, range(32)), size, uses_gpus=True).ranks
    assert (first.cpus != ()) == is_bound
    if not is_bound:
        assert first.place == (
            "not bound (fewer than half of a rank's share of the cores are near its GPU)"
        )


def test_where_a_gpu_has_no_known_node_nothing_is_bound_and_it_is_told(made_up):
    made_up.add_nodes("0-3", "4-7")
    made_up.add_cores(8, cores_of_package=4)
    add_gpus(made_up, [0, -1])
    found = facts(made_up, range(8))
    assert [rank.place for rank in bound(found, 2, uses_gpus=True).ranks] == [
        "not bound (it is not known which NUMA node is near GPU 1 (0000:01:00.0))"
    ] * 2
    assert threads_of(found, 2, uses_gpus=True) == [4, 4]
    assert sets_of(found, 1, uses_gpus=True) == [(0, 1, 2, 3)]  # of its GPU it is known
    # As ranks without GPUs.
    assert sets_of(found, 2, uses_gpus=True, bind_to="numa") == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_a_container_with_fewer_cores_than_the_node_gives_those_that_it_has(made_up):
    made_up.add_nodes("0-15", "16-31")
    made_up.add_cores(32, cores_of_package=16)
    add_gpus(made_up, [0, 1])
    found = facts(made_up, [2, 3, 4, 5, 20, 21, 22])
    assert sets_of(found, 2, uses_gpus=True) == [(2, 3, 4, 5), (20, 21, 22)]
    assert threads_of(found, 2, uses_gpus=True) == [3, 3]  # every rank has the same work
    (first, *_) = bound(facts(made_up, range(16)), 2, uses_gpus=True).ranks
    assert (first.cpus, first.place) == ((), "not bound")  # one node
    (first, *_) = bound(facts(made_up, [0, 1, 18], num_cores=2), 2, uses_gpus=True).ranks
    assert (first.cpus, first.place) == ((), "not bound")  # a quota


def test_cores_that_are_all_far_from_a_gpu_are_told(made_up):
    made_up.add_nodes("0-3", "4-7", "8-11")
    made_up.add_cores(12)
    add_gpus(made_up, [0, 2])
    (first, *_) = bound(facts(made_up, range(8)), 2, uses_gpus=True).ranks
    assert first.place == "not bound (no CPU near GPU 1 (0000:01:00.0, NUMA node 2) may be used)"


def test_more_ranks_than_cores_near_their_gpus_cannot_have_their_own(made_up):
    made_up.add_nodes("0-1", "2-7")
    made_up.add_cores(8)
    add_gpus(made_up, [0, 0, 0, 1])
    with pytest.raises(LaunchError, match="2 on NUMA node 0, which is near the GPUs of 3 ranks"):
        bound(facts(made_up, range(8)), 4, uses_gpus=True, bind_to="core")
    sets = sets_of(facts(made_up, range(8)), 2, uses_gpus=True, bind_to="core")
    assert sets == [(0,), (1,)]
