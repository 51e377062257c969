"""Explain a plan in words and as a table. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tnt_data.description.batching import Batching
from tnt_data.description.draws import REMEDY, find_stateful_draws
from tnt_data.description.rank_differences import find_unchangeable
from tnt_data.description.seeds import assign_seeds
from tnt_data.description.transformation import Kind, Transformation
from tnt_data.elements.row_split import RowSplit, last_batch_size
from tnt_data.plan.split import SplitPlan, Way

_SHOWN_RANKS = 8


def explain_plan(
    plan: SplitPlan, split: RowSplit, seed: int, differences: list[str], last: Transformation
) -> str:
    """Explain a plan: batches, way, warnings, a line per transformation, sources first."""
    seeds = assign_seeds(last, seed)
    report = _Report(plan, split.size, seeds, find_unchangeable(last))
    rows: list[tuple[str, ...]] = [("transformation", "done", "seed", "details")]
    rows += [report.row(one, depth) for one, depth in _walk(last, 0)]
    lines = [_describe_batching(plan.batching), *_describe_sizes(plan.batching, split)]
    lines.append(f"Way: {plan.way.value}, because {plan.reason}.")
    if plan.batching.may_be_samples:
        lines.append(f"Warning: {describe_doubt(plan.batching)}")
    lines += [f"Warning: {difference}." for difference in differences]
    draws = find_stateful_draws(last)
    lines += [f"Not the same in every run: {draw}." for draw in draws]
    lines += [f"Remedy: {REMEDY}."] if draws else []
    return "\n".join([*lines, "", *_table(rows)])


def _describe_batching(batching: Batching) -> str:
    certainty = "" if batching.is_certain else " (guessed)"
    return f"Batched{certainty}: {batching.reason}."


def describe_doubt(batching: Batching) -> str:
    """Return the warning on elements taken for batches that look like single samples. Local."""
    return (
        "no transformation makes batches, so each element is taken as a batch of "
        f"{batching.batch_size} samples, as in Keras. If the elements are single samples, call "
        ".batch(n) with the global batch size, or pass a micro-batch size, the number of samples "
        "per rank and step."
    )


def _describe_sizes(batching: Batching, split: RowSplit) -> list[str]:
    """Describe the samples per rank in the first and in the last batch of a pass."""
    rule = _describe_rule(split)
    if batching.batch_size is None:
        return [f"{rule}."]
    batch_size, num_samples = batching.batch_size, batching.num_samples
    if num_samples is None:
        last = "Last batch: its size is not known before it is read."
        return [f"{rule}. First batch: {_shares(batch_size, split)}", last]
    first = min(batch_size, num_samples)
    last_size = last_batch_size(num_samples, batch_size, batching.drop_remainder)
    last = f"Last batch of a pass: {_shares(last_size, split)}"
    return [f"{rule}. First batch: {_shares(first, split)}", last]


def _describe_rule(split: RowSplit) -> str:
    size, lanes, count = split.size, split.lanes, len(split.own_lanes)
    if count == 1:
        return f"Rank r of {size} takes batch[r::{size}]"
    return (
        f"Rank r of {size} takes lanes {count}r to {count}r + {count - 1} of {lanes}, one after "
        f"the other; lane v is batch[v::{lanes}]"
    )


def _shares(batch_size: int, split: RowSplit) -> str:
    ranks = range(min(split.size, _SHOWN_RANKS))
    shares = (replace(split, rank=rank).num_rows(batch_size) for rank in ranks)
    shown = ", ".join(map(str, shares))
    more = ", ..." if split.size > _SHOWN_RANKS else ""
    return f"{batch_size} samples, {shown}{more} on ranks 0 to {split.size - 1}."


def _walk(transformation: Transformation, depth: int) -> list[tuple[Transformation, int]]:
    """List transformations with their indentation, sources first; branches are indented."""
    deeper = depth + (transformation.kind is Kind.MERGE)
    before = [pair for upstream in transformation.inputs for pair in _walk(upstream, deeper)]
    return [*before, (transformation, depth)]


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [" | ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [lines[0], "-+-".join("-" * width for width in widths), *lines[1:]]


@dataclass(frozen=True)
class _Report:
    """What becomes of each transformation."""

    plan: SplitPlan
    size: int
    seeds: Mapping[int, int]
    fixed: set[Transformation]

    def row(self, transformation: Transformation, depth: int) -> tuple[str, str, str, str]:
        """Return the text of a transformation, what is done with it, its seed, and details."""
        done, details = self._what_is_done(transformation)
        repairs = self._repairs(transformation)
        if repairs and done == "kept":
            done = "rebuilt"
        text, seed = "  " * depth + transformation.text, self._seed(transformation)
        return text, done, seed, "; ".join([details, *repairs])

    def _what_is_done(self, transformation: Transformation) -> tuple[str, str]:
        plan = self.plan
        if any(moved.transformation is transformation for moved in plan.pushdown.moved):
            return "moved", "after the pick: for this rank's samples only"
        if transformation in plan.chain[:-1]:
            details = "; treats each row alone" if transformation.is_row_wise else ""
            return "rebuilt", "on micro-batches" + details
        if transformation is plan.split and plan.way is Way.PICK:
            return "rebuilt", "joins this rank's samples only"
        if transformation is plan.split and self.size == 1:
            return "kept", "batches are counted after it"
        if transformation is plan.split:
            return "fallback", f"whole batches, then this rank's rows are cut out: {plan.reason}"
        return "kept", "for all samples" + self._limit(transformation)

    def _limit(self, transformation: Transformation) -> str:
        for limit, reason in self.plan.pushdown.limits:
            if limit is transformation and transformation.inputs:
                return f", and what comes before it too: {reason}"
        return ""

    def _seed(self, transformation: Transformation) -> str:
        if transformation.needs_seed:
            is_fixed = transformation in self.fixed
            return "none" if is_fixed else f"gets {self.seeds[transformation.identity]}"
        return transformation.seeds

    def _repairs(self, transformation: Transformation) -> list[str]:
        if transformation in self.fixed:
            is_unknown = transformation.kind is Kind.OPAQUE and transformation.inputs
            return ["cannot be rebuilt"] if is_unknown else []
        found = []
        if transformation.needs_seed:
            found.append("seeded inside" if transformation.functions_lack_seed else "seeded")
        if transformation.is_nondeterministic:
            found.append("made deterministic")
        if transformation.cache_file and self.size > 1:
            found.append("one file per rank")
        if transformation.freezes_order:
            found.append("filled in the first pass")
        return found
