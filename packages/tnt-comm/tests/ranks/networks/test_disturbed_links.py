"""Links that delay, lose and reorder what goes over them: the sums are those of one host."""

import hashlib

import numpy as np
import pytest
from disturbed_network import Disturbance, two_hosts
from engines import ENGINES

import tnt_comm
from tnt_comm.testing import run_ranks

pytestmark = pytest.mark.timeout(300)

LINKS = {
    "slow": Disturbance(delay_s=0.05),
    "reordering": Disturbance(delay_s=0.002, jitter_s=0.01),
    "lossy": Disturbance(delay_s=0.001, loss=0.02),
    "slow, reordering and lossy": Disturbance(delay_s=0.02, jitter_s=0.02, loss=0.01),
}
RANKS_OF_HOSTS = (2, 1)  # shared memory on one of them
NUM_STEPS = 3


def mixed_collectives() -> str:
    """A hash of all bits that this rank gets."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    numbers = np.random.default_rng(rank)
    bits = hashlib.sha256()
    for step in range(NUM_STEPS):
        for count in (1, 1000, 30_000):
            data = numbers.standard_normal(count).astype(np.float32)
            bits.update(tnt_comm.allreduce(data).tobytes())
        bits.update(tnt_comm.broadcast(data, root=step % size).tobytes())
        for part in tnt_comm.allgather(data[: 10 * (rank + 1)]):
            bits.update(part.tobytes())
    return bits.hexdigest()


@pytest.fixture(scope="module")
def bits_of_one_host() -> list[str]:
    return run_ranks(mixed_collectives, sum(RANKS_OF_HOSTS), timeout_s=100)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("link", list(LINKS))
def test_sums_over_a_disturbed_link_are_those_of_one_host(
    bits_of_one_host: list[str], engine: dict[str, str], link: str
) -> None:
    with two_hosts(RANKS_OF_HOSTS, LINKS[link]) as (hosts, cable):
        sums = run_ranks(
            mixed_collectives, sum(RANKS_OF_HOSTS), env=engine, timeout_s=100, hosts=hosts
        )
    assert sums == bits_of_one_host
    assert cable.num_carried > 100
    assert (cable.num_lost > 0) == (LINKS[link].loss > 0)
    assert (cable.num_overtaken > 0) == (LINKS[link].jitter_s > 0)
