"""Real sums between hosts that are network namespaces with slow links, beside their replay.

Computation is sleep. Time is dilated: where a link is as much slower as computation is longer, two
cores do for all hosts. What was measured once is in `measured.toml`; `measure` does it again.
"""

from __future__ import annotations

import functools
import secrets
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import result_of_job
from benchmarks.jobs import Place
from benchmarks.linked_hosts import LinkUnavailable, linked_hosts
from benchmarks.simulate.layers import gradients_of
from benchmarks.simulate.replay import Costs, Job, Outcome, replay
from benchmarks.simulate.sourced import FOLDER, read_file, require_keys, sourced

MEASURED = FOLDER / "measured.toml"
KEYS = ("source", "model", "scale", "step_s", "parameters", "points")
PARAMETERS = (
    "latency_s",
    "send_s",
    "receive_s",
    "thread_s_per_byte",
    "combine_bytes_per_s",
    "payload",
)
POINT = ("hosts", "mbit_per_s", "threshold_bytes", "sent_mb", "exposed_ms")
STEPS = 3
THRESHOLDS = (32768, 4 << 20)
JOB_S = 300


@dataclass(frozen=True)
class SlowLink:
    """What was measured on one link, and what the model says."""

    hosts: int
    mbit_per_s: float
    threshold_bytes: int
    sent_bytes: float  # of a host in a step, by the counters of its card
    exposed_s: float
    replayed: Outcome
    last_s: float  # when the last gradient is ready

    @property
    def replayed_s(self) -> float:
        """What is exposed in the model."""
        return self.replayed.end_s - self.last_s

    @property
    def error(self) -> float:
        """Of the step, relative."""
        return self.replayed.end_s / (self.last_s + self.exposed_s) - 1

    @property
    def error_of_bytes(self) -> float:
        """Relative; counters have headers, repeats and heartbeats besides."""
        return self.replayed.card_bytes / self.sent_bytes - 1


@functools.cache
def _file() -> dict[str, Any]:
    table = read_file(MEASURED)
    require_keys(table, MEASURED.name, KEYS)
    for point in table["points"]:
        require_keys(point, f"{MEASURED.name}.points", POINT)
    return table


def measured_once() -> Iterator[SlowLink]:
    """The points of the file."""
    for point in _file()["points"]:
        link = (point["hosts"], point["mbit_per_s"], point["threshold_bytes"])
        yield _beside_replay(*link, 1e6 * point["sent_mb"], point["exposed_ms"] / 1e3)


def measure(mbit_per_s: float, num_hosts: int) -> Iterator[SlowLink]:
    """Measure again on so many hosts; SystemExit where they cannot be made."""
    table = _file()
    words = [table["model"], table["scale"], table["step_s"], STEPS]
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            linked_hosts(num_hosts, f"{mbit_per_s:g}mbit", Path(folder)) as hosts,
        ):
            for threshold_bytes in THRESHOLDS:
                job_id = secrets.token_hex(8)
                places = [
                    Place(hosts.prefix(rank), hosts.rank_variables(rank, job_id))
                    for rank in range(num_hosts)
                ]
                found = result_of_job(
                    "benchmarks.simulate.rank",
                    [*words, threshold_bytes],
                    places,
                    {"TNT_TRANSPORT": "ucx"},
                    JOB_S,
                )
                exposed_s = statistics.median(found["exposed_s"])
                yield _beside_replay(
                    num_hosts, mbit_per_s, threshold_bytes, found["sent_bytes"], exposed_s
                )
    except LinkUnavailable as missing:
        sys.exit(f"A network of {num_hosts} hosts cannot be made here: {missing}")


def _beside_replay(
    hosts: int, mbit_per_s: float, threshold_bytes: int, sent_bytes: float, exposed_s: float
) -> SlowLink:
    table = _file()
    entries = sourced(table["parameters"], f"{MEASURED.name}.parameters", PARAMETERS)
    given = {name: entry.value for name, entry in entries.items()}
    costs = Costs(
        latency=given["latency_s"],
        gap=8e-6 / (given["payload"] * mbit_per_s),
        send=given["send_s"],
        receive=given["receive_s"],
        message_gap=given["thread_s_per_byte"],
        combine_gap=1 / given["combine_bytes_per_s"],
    )
    sizes = scaled_sizes(table["model"], table["scale"])
    ready_s = [table["step_s"] * share for share in gradients_of(table["model"]).ready_share]
    outcome = replay(costs, Job(hosts, 1, sizes, ready_s, threshold_bytes))
    link = (hosts, mbit_per_s, threshold_bytes, sent_bytes, exposed_s)
    return SlowLink(*link, outcome, last_s=max(ready_s))


def scaled_sizes(model: str, scale: float) -> list[int]:
    """Elements of each gradient, so many times. Pure."""
    return [max(1, int(scale * size)) for size in gradients_of(model).num_elements]
