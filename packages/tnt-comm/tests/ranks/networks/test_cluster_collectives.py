"""All collectives over GPI-2 and UCX: the bits of the tree, on one host and on several."""

import os
from collections.abc import Iterator

import allreduce_checks
import collective_checks
import gatherer_checks
import pytest
import reducer_checks
from engines import ENGINES, LOOPBACK, PLACEMENTS, hosts_of, variables_for

import tnt_comm
from tnt_comm.testing import Host, RankPool, observe_ranks, run_ranks

pytestmark = pytest.mark.timeout(300)

CHECKS = {
    "allreduce, all dtypes": (allreduce_checks.check_every_dtype_and_operation, ()),
    "allreduce, awkward counts": (allreduce_checks.check_awkward_counts, ("float32",)),
    "allreduce, 16 bits": (allreduce_checks.check_awkward_counts, ("bfloat16",)),
    "allreduce, in place": (allreduce_checks.check_in_place_and_shapes, ()),
    "allreduce, many in flight": (allreduce_checks.check_many_in_flight, ()),
    "broadcast": (collective_checks.check_broadcast, ()),
    "allgather": (collective_checks.check_allgather, ()),
    "reduce_scatter": (collective_checks.check_reduce_scatter, ()),
    "alltoall and scatter": (collective_checks.check_alltoall_and_scatter, ()),
    "gather": (collective_checks.check_gather, ()),
    "reducer, fused": (reducer_checks.check_sums, (32768, ("float32",))),
    "reducer, one by one": (reducer_checks.check_sums, (0, ("float32", "bfloat16"))),
    "reducer, many steps": (reducer_checks.check_reuse_for_many_steps, ()),
    "reducer, threads": (reducer_checks.check_threads_in_random_orders, ()),
    "gatherer": (gatherer_checks.check_unequal_parts, ()),
    "gatherers": (gatherer_checks.check_independence, ()),
}


def identity() -> tuple[int, ...]:
    tnt_comm.barrier()
    return (
        tnt_comm.get_rank(),
        tnt_comm.get_size(),
        tnt_comm.get_local_rank(),
        tnt_comm.get_local_size(),
    )


def make_groups_again_and_again() -> None:
    for _ in range(3):
        tnt_comm.Group(range(tnt_comm.get_size())).barrier()


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(request.param)


SHORT = ("1 rank", "2+1 on one address", "2x2 in namespaces")
"""Placements that take every way; the others are combinations of these."""


def placements() -> list[object]:
    long = pytest.mark.thorough
    return [pytest.param(name, marks=() if name in SHORT else long) for name in PLACEMENTS]


@pytest.fixture(scope="module", params=placements())
def pool(request: pytest.FixtureRequest, engine: dict[str, str]) -> Iterator[RankPool]:
    with hosts_of(request.param) as hosts:
        size = sum(host.num_ranks for host in hosts)
        env = variables_for(request.param, engine)
        with RankPool(size, env=env, timeout_s=120, hosts=hosts) as started:
            yield started


def test_every_rank_knows_who_it_is(pool: RankPool) -> None:
    for rank, (world_rank, size, local_rank, local_size) in enumerate(pool.run(identity)):
        assert (world_rank, size) == (rank, pool.size)
        assert local_rank < local_size <= pool.size


@pytest.mark.parametrize("what", list(CHECKS))
def test_collectives_work(pool: RankPool, what: str) -> None:
    check, arguments = CHECKS[what]
    pool.run(check, *arguments)


def test_hosts_of_unequal_size_are_told_of_once(engine: dict[str, str]) -> None:
    placement = "2+1 on one address"
    with hosts_of(placement) as hosts:
        reports = observe_ranks(
            make_groups_again_and_again,
            3,
            env=variables_for(placement, engine),
            hosts=hosts,
            timeout_s=100,
        )
    assert [report.outcome for report in reports] == ["returned"] * 3
    assert reports[0].output.count("sends the data of every rank over the network") == 1


def test_hosts_of_three_are_summed_first_if_the_job_says_so(engine: dict[str, str]) -> None:
    env = {**engine, **LOOPBACK, "TNT_SUM_TREE": "3x2"}
    run_ranks(allreduce_checks.check_order_of_counts, 6, 3, 2, env=env, hosts=(Host(3), Host(3)))


def join_with_tree_on_rank_1() -> None:
    if os.environ["TNT_RANK"] == "1":
        os.environ["TNT_SUM_TREE"] = "2"
    tnt_comm.init()


def test_ranks_with_other_orders_of_summation_are_refused_by_all(engine: dict[str, str]) -> None:
    env = {**engine, **LOOPBACK}
    for report in observe_ranks(join_with_tree_on_rank_1, 2, env=env, hosts=(Host(1), Host(1))):
        assert "The environments of the ranks contradict each other: rank 1" in report.error
        assert "TNT_SUM_TREE=2, but rank 0 has unset" in report.error
