"""Two hosts on one machine, and between them a cable that delays, loses and reorders frames.

It is `tc netem` for kernels without that: a thread reads the frames of two virtual network cards
(TAP devices) and writes them to the other one later, or never.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import selectors
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import network_namespaces
import pytest

from tnt_comm.testing import Host

TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
MOST_FRAME_BYTES = 65536


@dataclass(frozen=True)
class Disturbance:
    """What happens to each frame on its own, so that later frames may come first.

    Attributes:
        delay_s: Seconds on the way, at least.
        jitter_s: At most this many more, evenly distributed.
        loss: Probability of being lost.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0


class Cable:
    """Carries frames between two TAP devices until it is pulled out.

    Attributes:
        num_carried: Frames that have arrived.
        num_lost: Frames that have not.
        num_overtaken: Frames that arrived after one that was sent later.
    """

    def __init__(self, ends: tuple[int, int], disturbance: Disturbance) -> None:
        self._ends, self._disturbance = ends, disturbance
        self._random = random.Random(1)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._latest = 0
        self._is_pulled = threading.Event()
        self._thread = threading.Thread(target=self._carry)
        self.num_carried = self.num_lost = self.num_overtaken = 0
        self._thread.start()

    def pull(self) -> None:
        self._is_pulled.set()
        self._thread.join()

    def _carry(self) -> None:
        with selectors.DefaultSelector() as selector:
            for end, other in (self._ends, self._ends[::-1]):
                selector.register(end, selectors.EVENT_READ, other)
            while not self._is_pulled.is_set():
                for key, _ in selector.select(self._wait_s()):
                    self._take(key.fd, key.data)
                self._deliver()

    def _wait_s(self) -> float:
        longest_s = 0.05
        if not self._waiting:
            return longest_s
        return min(longest_s, max(0.0, self._waiting[0][0] - time.monotonic()))

    def _take(self, end: int, other: int) -> None:
        frame = os.read(end, MOST_FRAME_BYTES)
        if self._random.random() < self._disturbance.loss:
            self.num_lost += 1
            return
        jitter_s = self._disturbance.jitter_s * self._random.random()
        due = time.monotonic() + self._disturbance.delay_s + jitter_s
        self._number += 1
        heapq.heappush(self._waiting, (due, self._number, other, frame))

    def _deliver(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, number, end, frame = heapq.heappop(self._waiting)
            os.write(end, frame)
            self.num_carried += 1
            self.num_overtaken += number < self._latest
            self._latest = max(self._latest, number)


@contextmanager
def two_hosts(
    ranks_of_hosts: tuple[int, int], disturbance: Disturbance
) -> Iterator[tuple[tuple[Host, ...], Cable]]:
    """Hosts with these numbers of ranks, and the cable between them, until the end of the block.

    Skips the test where namespaces or TAP devices are not permitted.
    """
    if not network_namespaces.are_permitted() or not os.access("/dev/net/tun", os.W_OK):
        pytest.skip(f"{network_namespaces.NOT_PERMITTED}, and /dev/net/tun")
    with ExitStack() as stack:
        names = stack.enter_context(network_namespaces.namespaces(len(ranks_of_hosts)))
        hosts, ends = [], []
        for i, num_ranks in enumerate(ranks_of_hosts):
            address = f"10.201.8.{i + 1}"
            ends.append(_add_card(names[i], address))
            stack.callback(os.close, ends[-1])
            hosts.append(Host(num_ranks, address, ("ip", "netns", "exec", names[i])))
        cable = Cable((ends[0], ends[1]), disturbance)
        stack.callback(cable.pull)
        yield tuple(hosts), cable


def _add_card(name: str, address: str) -> int:
    """Give a namespace a network card, and return the other end of its cable."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    for command in (
        f"link set {name} netns {name} name eth0",
        f"-n {name} addr add {address}/24 dev eth0",
        f"-n {name} link set eth0 up",
    ):
        subprocess.run(["ip", *command.split()], check=True, capture_output=True, timeout=30)
    return end
