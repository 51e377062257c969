"""What could be done about a gradient that is ready last: that of a Transformer's shared embedding.

The table of subwords is the first layer and the last one. The gradient of the last one is ready
when the backward pass begins, that of the lookup when it ends, and the optimizer needs their sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.simulate.layers import UPDATE_SHARE, gradients_of
from benchmarks.simulate.machine import costs_of, machine, software
from benchmarks.simulate.replay import Costs, replay
from benchmarks.simulate.step import Layout, expected_maximum, make_job

MODEL = "transformer_big"
COMPUTE_S = 1.18
ROW_BYTES = 4 * 1024
ROWS_OF_A_RANK = 2 * 4096
"""Subwords of source and target that a rank looks up in a step."""

LAYOUTS = tuple(Layout(hosts, 6, is_host_first=True) for hosts in (1, 2, 4, 16))


@dataclass(frozen=True)
class Ways:
    """What communication adds to a step, in seconds, in each way."""

    layout: Layout
    now_s: float
    rows_s: float
    updates_s: float


def compare_ways() -> Iterator[Ways]:
    """Replay each way on each layout. Pure.

    - now: the sum of both gradients is exchanged, as one.
    - rows: the gradient of the last layer is exchanged when it is ready. The rows that a rank has
      looked up go to all others at the end: r bytes of each of n ranks pass the card of a host with
      q ranks in (n-q) r / bandwidth, and its memory, once for each rank, in 3 q n r / bandwidth.
    - updates: as now, while all other variables are updated; so at most their share of the update
      is hidden.
    """
    on, how = machine("original_gpu"), software("tnt")
    costs = costs_of(on, how)
    gradients = gradients_of(MODEL)
    last = max(range(len(gradients.ready_share)), key=gradients.num_elements.__getitem__)
    early = list(gradients.ready_share)
    early[last] = min(early)
    for layout in LAYOUTS:
        step_s = COMPUTE_S * (1 + on.jitter * expected_maximum(layout.num_ranks))
        computed_s = (1 - UPDATE_SHARE) * step_s

        now_s, early_s = (
            max(0.0, replay(costs, make_job(each, step_s, layout, how)).end_s - computed_s)
            for each in (gradients, replace(gradients, ready_share=early))
        )
        others = 1 - gradients.num_elements[last] / sum(gradients.num_elements)
        yield Ways(
            layout,
            now_s,
            early_s + _gathering_s(costs, layout),
            max(0.0, now_s - others * UPDATE_SHARE * step_s),
        )


def _gathering_s(costs: Costs, layout: Layout) -> float:
    all_bytes = layout.num_ranks * ROWS_OF_A_RANK * ROW_BYTES
    incoming = all_bytes * (1 - 1 / layout.hosts)
    in_memory = 3 * layout.ranks_per_host * all_bytes
    return costs.latency + incoming * costs.gap + in_memory * costs.memory_gap
