"""The engines between hosts, and jobs over them in every shape that one machine allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import network_namespaces
import pytest
from gpi2_found import needs_gpi2
from ucx_found import needs_ucx

from tnt_comm.testing import Host

FAREWELL_S = 0.5
"""What a rank has sent before it ends leaves through a thread of GPI-2."""

GPI2 = {"TNT_TRANSPORT": "gpi2", "TNT_TIMEOUT_S": "40"}
UCX = {"TNT_TRANSPORT": "ucx", "TNT_TIMEOUT_S": "40"}
LOOPBACK = {"TNT_INTERFACE": "lo"}
"""For "hosts" that are all on this one."""

ENGINES = [
    pytest.param(GPI2, marks=needs_gpi2, id="gpi2"),
    pytest.param(UCX, marks=needs_ucx, id="ucx"),
]
"""Variables of the engines, for parameters of tests."""

PLACEMENTS = {
    "1 rank": (Host(1),),
    "2 ranks": (Host(2),),
    "4 ranks": (Host(4),),
    "2x2 on one address": (Host(2), Host(2)),
    "2+1 on one address": (Host(2), Host(1)),
    "2x2 in namespaces": (2, 2),
}
"""What the environment says: ranks of one host, or of several with shared memory on each."""


@contextmanager
def hosts_of(placement: str) -> Iterator[tuple[Host, ...]]:
    """The hosts of a placement; skips the test if it cannot be had here."""
    hosts = PLACEMENTS[placement]
    if isinstance(hosts[0], Host):
        yield hosts
        return
    with network_namespaces.cluster(hosts) as made:
        yield made


def variables_for(placement: str, engine: dict[str, str]) -> dict[str, str]:
    """What ranks need besides, for an engine on a placement."""
    is_this_host = isinstance(PLACEMENTS[placement][0], Host)
    return {**engine, **(LOOPBACK if is_this_host else {})}
