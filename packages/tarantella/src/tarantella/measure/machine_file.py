"""The file of a machine, with the source of each number, as `benchmarks/simulate` reads it."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ASSUMED_NETWORK = {
    "latency_s": 2e-6,
    "bytes_per_s": 11.7e9,
    "send_s": 1e-6,
    "receive_s": 1e-6,
    "thread_s_per_byte": 0.0,
}
_WHY_ASSUMED = "assumption: 100 Gbit/s RDMA, since the job had one host"
_DEVICE_BYTES_PER_S = 14e9
_WHY_DEVICE = "reported (DeepSpeed#8283): pageable memory of the host, PCIe 5; not measured here"


@dataclass(frozen=True)
class Measured:
    """What was measured, in seconds and bytes per second; `network` is None on a single host."""

    hosts: int
    ranks_per_host: int
    date: str
    has_gpus: bool
    network: Mapping[str, float] | None
    host: Mapping[str, float]
    jitter: float


def network_of(
    latency_s: float, bytes_per_s: float, message_s: float, byte_s: float
) -> dict[str, float]:
    """Take the time at both ends out of half a round trip. Pure."""
    return {
        "latency_s": max(latency_s - 2 * message_s, 0.0),
        "bytes_per_s": bytes_per_s,
        "send_s": message_s,
        "receive_s": message_s,
        "thread_s_per_byte": byte_s,
    }


def text_of(measured: Measured) -> str:
    """Return the file. Pure."""
    ranks = "1 rank" if measured.ranks_per_host == 1 else f"{measured.ranks_per_host} ranks"
    hosts = "1 host" if measured.hosts == 1 else f"{measured.hosts} hosts"
    where = f"{hosts} with {ranks}"
    source = f"measured {measured.date} by tarantella measure, {where}"
    network = measured.network or _ASSUMED_NETWORK
    device = _DEVICE_BYTES_PER_S if measured.has_gpus else math.inf
    of_device = _WHY_DEVICE if measured.has_gpus else "gradients are in the memory of the host"
    lines = [f'title = "{where}, {measured.date}"']
    lines += _section("network", network, source if measured.network else _WHY_ASSUMED)
    lines += _section("host", measured.host, source)
    lines += _section("device", {"up_bytes_per_s": device, "down_bytes_per_s": device}, of_device)
    lines += _section(
        "training", {"jitter": measured.jitter}, f"{source}; of a product of matrices"
    )
    lines.append('epoch_s = { value = 0, source = "not measured: depends on the input pipeline" }')
    return "\n".join(lines) + "\n"


def write_whole(path: str, text: str) -> None:
    """Write the file so that it is there as a whole or not at all; a device is written to."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _section(name: str, values: Mapping[str, float], source: str) -> list[str]:
    entries = [
        f'{key} = {{ value = {value:.3g}, source = "{source}" }}' for key, value in values.items()
    ]
    return ["", f"[{name}]", *entries]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
