"""What UCX may do in a process of ours, who may connect, and what ranks by hand need not tell."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import network_namespaces
import numpy as np
import pytest
from engines import LOOPBACK, UCX
from lost_and_late import lose_the_link
from ucx_found import needs_ucx

import tnt_comm
from tnt_comm.testing import observe_ranks, run_ranks

pytestmark = needs_ucx

LISTENS = "0A"  # state of a socket in /proc/net/tcp


def own_sockets() -> set[str]:
    """Inodes of the sockets of this process."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # that of the list itself
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def listening_addresses() -> list[str]:
    """Addresses of IPv4 on which this rank listens; none are of IPv6."""
    tnt_comm.init()
    tnt_comm.barrier()
    own = own_sockets()
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and words[9] in own:
                number = int(words[1].split(":")[0], 16)
                addresses.append(socket.inet_ntoa(struct.pack("<L", number)))
    tnt_comm.barrier()
    return addresses


def caught_signals() -> str:
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("SigCgt:")
    )
    return line


def signals_before_and_after() -> tuple[str, str]:
    before = caught_signals()
    tnt_comm.init()
    tnt_comm.barrier()
    return before, caught_signals()


def test_a_rank_listens_on_its_interface_alone() -> None:
    with network_namespaces.cluster((1, 1)) as hosts:
        of_ranks = run_ranks(listening_addresses, 2, env=UCX, hosts=hosts)
    # Rank 0 no longer listens for others: they have all come.
    assert of_ranks == [["10.201.7.1"], ["10.201.7.2"]]


def test_no_signal_is_taken_and_nothing_is_printed() -> None:
    reports = observe_ranks(signals_before_and_after, 2, env={**UCX, **LOOPBACK})
    for report in reports:
        before, after = report.value
        assert after == before
        assert report.output == ""


def join_with_own_secret() -> None:
    if os.environ["TNT_RANK"] == "1":
        os.environ["TNT_JOB_SECRET"] = "that of another job"
    tnt_comm.init()


def test_ranks_with_another_secret_are_refused() -> None:
    env = {**UCX, **LOOPBACK, "TNT_TIMEOUT_S": "5"}
    reports = observe_ranks(join_with_own_secret, 2, env=env, grace_s=30)
    assert "for rank 1, which did not join" in reports[0].error
    assert "did not prove that it knows this job's secret, and was refused" in reports[0].output
    assert "rank 1 was refused at TNT_RENDEZVOUS" in reports[1].error


def lose_the_link_of_ranks_by_hand(cutter: int, command: str) -> str:
    """As started without a word on how many hosts there are."""
    for name in ("TNT_NUM_NODES", "TNT_NODE_RANK", "TNT_LOCAL_RANK", "TNT_LOCAL_SIZE"):
        os.environ.pop(name, None)
    return lose_the_link(cutter, command)


def test_a_host_that_vanishes_is_named_also_if_nobody_told_of_hosts() -> None:
    env = {**UCX, "TNT_TIMEOUT_S": "80", "TNT_STALL_S": "3"}
    cut = "ip link set eth0 down"
    with network_namespaces.cluster((1, 1)) as hosts:
        reports = observe_ranks(
            lose_the_link_of_ranks_by_hand, 2, 1, cut, env=env, timeout_s=120, hosts=hosts
        )
    for report, lost in zip(reports, (hosts[1].address, hosts[0].address), strict=True):
        assert report.outcome == "returned", report.full_text()
        assert f"its host {lost} was last heard from" in report.value


def sum_with_rdma(uses: tuple[str, ...]) -> bytes:
    """Bits of a sum over ranks that use RDMA, emulated by UCX, or do not."""
    rank = int(os.environ["TNT_RANK"])
    os.environ["TNT_UCX_RDMA"] = uses[rank]
    data = np.random.default_rng(rank).standard_normal(1_000_003).astype(np.float32)
    return tnt_comm.allreduce(data).tobytes()


@pytest.mark.parametrize("uses", [("on", "on", "on"), ("on", "off", "on")])
def test_rdma_does_not_change_a_bit(uses: tuple[str, ...]) -> None:
    env = {**UCX, **LOOPBACK}
    expected = run_ranks(sum_with_rdma, 3, ("off", "off", "off"), env=env)
    assert run_ranks(sum_with_rdma, 3, uses, env=env) == expected


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"TNT_INTERFACE": "lo"}, "cannot be reached; see TNT_INTERFACE"),
        ({"UCX_TLS": "bogus"}, "The environment sets UCX_TLS='bogus': is that right?"),
    ],
)
def test_what_ucx_cannot_do_is_told_by_our_error_alone(setting: dict[str, str], told: str) -> None:
    env = {**UCX, "TNT_TIMEOUT_S": "5", **setting}
    with network_namespaces.cluster((1, 1)) as hosts:
        reports = observe_ranks(tnt_comm.barrier, 2, env=env, hosts=hosts, grace_s=30)
    assert any(told in report.error for report in reports), [report.error for report in reports]
    assert not any("UCX  " in report.output for report in reports)
