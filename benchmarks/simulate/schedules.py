"""Bytes that each host sends, as replayed, against the formulas of the algorithms."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.simulate.layers import gradients_of
from benchmarks.simulate.machine import costs_of, machine, software
from benchmarks.simulate.replay import Job, Outcome, replay
from benchmarks.simulate.step import Layout

MODELS = ("resnet50", "transformer_big")
LAYOUTS = (
    Layout(2, 1), Layout(3, 1), Layout(8, 1), Layout(16, 1), Layout(2, 4), Layout(16, 4),
    Layout(16, 6), Layout(16, 6, is_host_first=True), Layout(16, 8), Layout(128, 8),
)  # fmt: skip


@dataclass(frozen=True)
class BytesPerHost:
    """What a host sends in a step."""

    model: str
    layout: Layout
    algorithms: str
    is_hierarchical: bool
    replayed: float
    by_formula: float

    @property
    def error(self) -> float:
        """Relative."""
        return self.replayed / self.by_formula - 1


def check_bytes() -> Iterator[BytesPerHost]:
    """Replay this tree's sums of each model on each layout."""
    costs = costs_of(machine("rdma_100"), software("tnt"))
    for model, layout in itertools.product(MODELS, LAYOUTS):
        gradients = gradients_of(model)
        job = Job(
            layout.num_ranks,
            layout.ranks_per_host,
            gradients.num_elements,
            gradients.ready_share,
            is_host_first=layout.is_host_first,
        )
        outcome = replay(costs, job)
        yield BytesPerHost(
            model,
            layout,
            ", ".join(sorted({algorithm for _, algorithm in outcome.buckets})),
            outcome.is_hierarchical,
            outcome.card_bytes,
            formula(outcome, layout),
        )


def formula(outcome: Outcome, layout: Layout) -> float:
    """Bytes that leave a host, by the formulas in `schedule.hpp`. Pure."""
    if outcome.is_hierarchical:  # what one member of each host sends, over all parts of a bucket
        layout = Layout(layout.hosts, 1)
    return sum(
        num_bytes * vectors_sent(algorithm, layout) for num_bytes, algorithm in outcome.buckets
    )


@functools.cache
def vectors_sent(algorithm: str, layout: Layout) -> float:
    """How many times the vector leaves each host, on average. Pure.

    On a level, members that differ in one digit of their mixed-radix number exchange what they
    hold: whole vectors, or parts of what the levels before have left them, there and back. If all
    are on hosts of their own, that is S, or 2 (n-1)/n.
    """
    size = layout.num_ranks
    is_split = algorithm in ("two_shot", "halving_doubling", "pipelined", "ring")
    if algorithm == "ring":  # one of the ranks of a host sends to the next host
        return 2 * (size - 1) / size
    sent = 0.0
    stride = 1
    for radix in [size] if algorithm in ("one_shot", "two_shot") else prime_factors(size):
        crossing = 0
        for member, distance in itertools.product(range(size), range(1, radix)):
            digit = member // stride % radix
            teammate = member + ((digit + distance) % radix - digit) * stride
            crossing += member // layout.ranks_per_host != teammate // layout.ranks_per_host
        share = 2 / (stride * radix) if is_split else 1
        sent += share * crossing / layout.hosts
        stride *= radix
    return sent


def prime_factors(number: int) -> list[int]:
    """Smallest first. Pure."""
    factors = []
    divisor = 2
    while number > 1:
        if number % divisor:
            divisor += 1
        else:
            factors.append(divisor)
            number //= divisor
    return factors
