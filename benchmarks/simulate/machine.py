"""What a step costs on a machine with a software, from their files."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.simulate.replay import Costs
from benchmarks.simulate.sourced import (
    Sourced,
    WrongInput,
    read,
    read_file,
    require_keys,
    sourced,
)

MACHINE = {
    "network": ("latency_s", "bytes_per_s", "send_s", "receive_s", "thread_s_per_byte"),
    "host": (
        "local_latency_s",
        "local_bytes_per_s",
        "memory_bytes_per_s",
        "combine_bytes_per_s",
        "copy_bytes_per_s",
    ),
    "device": ("up_bytes_per_s", "down_bytes_per_s"),
    "training": ("jitter", "epoch_s"),
}
SOFTWARE = (
    "algorithm",
    "order",
    "fusion_threshold_bytes",
    "cycle_s",
    "negotiation_s",
    "is_serial",
    "loopback",
    "packing_copies",
    "packing_threads",
    "is_lent",
)
ORDERS = ("backward", "forward")
LOOPBACKS = ("card", "host")
BYTES_MOVED_BY_A_COPY = 3  # read, fetch what is overwritten, write


@dataclass(frozen=True)
class Machine:
    """Hosts and the network between them; what each number means says README.md."""

    name: str
    title: str
    latency_s: float
    bytes_per_s: float
    send_s: float
    receive_s: float
    thread_s_per_byte: float
    local_latency_s: float
    local_bytes_per_s: float
    memory_bytes_per_s: float
    combine_bytes_per_s: float
    copy_bytes_per_s: float
    up_bytes_per_s: float
    down_bytes_per_s: float
    jitter: float
    epoch_s: float

    def slower(self, *, latency: float, bandwidth: float) -> Machine:
        """With these factors on the latencies and rates of its network."""
        return replace(
            self,
            latency_s=latency * self.latency_s,
            send_s=latency * self.send_s,
            receive_s=latency * self.receive_s,
            bytes_per_s=bandwidth * self.bytes_per_s,
        )


@dataclass(frozen=True)
class Software:
    """How gradients are fused and summed."""

    name: str
    title: str
    algorithm: str
    order: str
    fusion_threshold_bytes: int
    cycle_s: float
    negotiation_s: float
    is_serial: bool
    loopback: str
    packing_copies: float
    packing_threads: float
    is_lent: bool


@functools.cache
def machine(name: str) -> Machine:
    """The machine of `machines/NAME.toml`, or of the file of that path (with .toml)."""
    if name.endswith(".toml"):
        return machine_from(name, read_file(Path(name)))
    return machine_from(name, read("machines", name))


def machine_from(name: str, tables: Mapping[str, Any]) -> Machine:
    """The machine of a file's tables; WrongInput if a key is unknown or missing. Pure."""
    require_keys(tables, name, ("title", *MACHINE))
    values = {"name": name, "title": tables["title"]}
    for section, keys in MACHINE.items():
        found = sourced(tables[section], f"{name}.{section}", keys)
        values |= {key: _positive(f"{name}.{section}.{key}", each) for key, each in found.items()}
    return Machine(**values)


def _positive(where: str, entry: Sourced) -> float:
    number = entry.value
    if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
        raise WrongInput(f"{where} must be a number, and not negative. Received: {number!r}.")
    if where.endswith("bytes_per_s") and number == 0:
        raise WrongInput(f"{where} must be more than 0.")
    return float(number)


@functools.cache
def software(name: str) -> Software:
    """The software of `software/NAME.toml`."""
    return software_from(name, read("software", name))


def software_from(name: str, tables: Mapping[str, Any]) -> Software:
    """The software of a file's table; WrongInput if a key is unknown or missing. Pure."""
    entries = {key: entry for key, entry in tables.items() if key != "title"}
    values = {key: each.value for key, each in sourced(entries, name, SOFTWARE).items()}
    for key, known in (("order", ORDERS), ("loopback", LOOPBACKS)):
        if values[key] not in known:
            raise WrongInput(
                f"{name}.{key} must be one of {', '.join(known)}. Received: {values[key]!r}."
            )
    return Software(name=name, title=tables["title"], **values)


def costs_of(machine: Machine, software: Software) -> Costs:
    """What the replay takes. Pure."""
    copies = software.packing_copies
    return Costs(
        latency=machine.latency_s,
        gap=1 / machine.bytes_per_s,
        local_latency=machine.local_latency_s,
        local_gap=1 / machine.local_bytes_per_s,
        send=machine.send_s,
        receive=machine.receive_s,
        message_gap=machine.thread_s_per_byte,
        combine_gap=1 / machine.combine_bytes_per_s,
        write_gap=1 / machine.copy_bytes_per_s,
        pack_gap=copies / software.packing_threads / machine.copy_bytes_per_s,
        pack_traffic=BYTES_MOVED_BY_A_COPY * copies,
        memory_gap=_gap(machine.memory_bytes_per_s),
        up_gap=_gap(machine.up_bytes_per_s),
        down_gap=_gap(machine.down_bytes_per_s),
    )


def _gap(bytes_per_s: float) -> float:
    return 0 if math.isinf(bytes_per_s) else 1 / bytes_per_s
