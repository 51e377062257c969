"""Words and a table about a plan. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tnt_data.arithmetic import last_batch_size, split_sizes
from tnt_data.batching import Batching
from tnt_data.differences import beyond_repair
from tnt_data.pipeline import Kind, Step
from tnt_data.planning import SplitPlan, Way
from tnt_data.seeding import assign_seeds

_SHOWN_RANKS = 8


def describe_plan(plan: SplitPlan, size: int, seed: int, differences: list[str], last: Step) -> str:
    """Text about a plan: batches, way, warnings, and one line per step, sources first. Local.

    Args:
        plan: What `distribute` would do.
        size: Number of ranks.
        seed: Seed for shuffles without one.
        differences: What `find_differences` found.
        last: Last step of the pipeline.
    """
    seeds = assign_seeds(last, seed)
    report = _Report(plan, size, seeds, beyond_repair(last))
    rows: list[tuple[str, ...]] = [("step", "done", "seed", "details")]
    rows += [report.row(step, depth) for step, depth in _walk(last, 0)]
    lines = [_describe_batching(plan.batching), *_describe_sizes(plan.batching, size)]
    lines.append(f"Way: {plan.way.value}, because {plan.reason}.")
    lines += [f"Warning: {difference}." for difference in differences]
    return "\n".join([*lines, "", *_table(rows)])


def _describe_batching(batching: Batching) -> str:
    certainty = "" if batching.is_certain else " (guessed)"
    return f"Batched{certainty}: {batching.reason}."


def _describe_sizes(batching: Batching, size: int) -> list[str]:
    """Samples per rank in the first and in the last batch of a pass."""
    rule = f"Rank r of {size} takes batch[r::{size}]"
    if batching.batch_size is None:
        return [f"{rule}."]
    batch_size, num_samples = batching.batch_size, batching.num_samples
    if num_samples is None:
        last = "Last batch: its size is not known before it is read."
        return [f"{rule}. First batch: {_shares(batch_size, size)}", last]
    first = min(batch_size, num_samples)
    last_size = last_batch_size(num_samples, batch_size, batching.drop_remainder)
    last = f"Last batch of a pass: {_shares(last_size, size)}"
    return [f"{rule}. First batch: {_shares(first, size)}", last]


def _shares(batch_size: int, size: int) -> str:
    shares = split_sizes(batch_size, size)
    shown = ", ".join(map(str, shares[:_SHOWN_RANKS]))
    more = ", ..." if size > _SHOWN_RANKS else ""
    return f"{batch_size} samples, {shown}{more} on ranks 0 to {size - 1}."


def _walk(step: Step, depth: int) -> list[tuple[Step, int]]:
    """Steps, sources first; the branches of a merge are indented."""
    deeper = depth + (step.kind is Kind.MERGE)
    return [pair for feeding in step.inputs for pair in _walk(feeding, deeper)] + [(step, depth)]


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [" | ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [lines[0], "-+-".join("-" * width for width in widths), *lines[1:]]


@dataclass(frozen=True)
class _Report:
    """What becomes of each step."""

    plan: SplitPlan
    size: int
    seeds: Mapping[int, int]
    fixed: set[Step]

    def row(self, step: Step, depth: int) -> tuple[str, str, str, str]:
        """Step, what is done with it, its seed, and details."""
        done, details = self._fate(step)
        repairs = self._repairs(step)
        if repairs and done == "kept":
            done = "replayed"
        return "  " * depth + step.text, done, self._seed(step), "; ".join([details, *repairs])

    def _fate(self, step: Step) -> tuple[str, str]:
        plan = self.plan
        if any(moved.step is step for moved in plan.move.steps):
            return "moved", "after the pick: for this rank's samples only"
        if step in plan.steps[:-1]:
            details = "on micro-batches"
            return "replayed", details + ("; treats each row alone" if step.is_row_wise else "")
        if step is plan.split and plan.way is Way.PICK:
            return "replayed", "joins this rank's samples only"
        if step is plan.split and self.size == 1:
            return "kept", "batches are counted after it"
        if step is plan.split:
            return "fallback", f"whole batches, then this rank's rows are cut out: {plan.reason}"
        return "kept", "for all samples" + self._limit(step)

    def _limit(self, step: Step) -> str:
        for limit, reason in self.plan.move.limits:
            if limit is step and step.inputs:
                return f", and what comes before it too: {reason}"
        return ""

    def _seed(self, step: Step) -> str:
        if step.needs_seed:
            return "none" if step in self.fixed else f"gets {self.seeds[step.identity]}"
        return step.seeds

    def _repairs(self, step: Step) -> list[str]:
        if step in self.fixed:
            return ["cannot be repeated"] if step.kind is Kind.OPAQUE and step.inputs else []
        found = []
        if step.needs_seed:
            found.append("seeded inside" if step.lacks_seed_inside else "seeded")
        if step.lacks_order:
            found.append("made deterministic")
        if step.cache_file and self.size > 1:
            found.append("one file per rank")
        if step.freezes_order:
            found.append("filled in the first pass")
        return found
