"""Words and a table about a plan. No TensorFlow."""

from __future__ import annotations

from tnt_data.arithmetic import split_sizes
from tnt_data.pipeline import Kind, Step
from tnt_data.planning import SplitPlan, Way, beyond_repair


def describe_plan(plan: SplitPlan, size: int, seed: int, differences: list[str], last: Step) -> str:
    """Text about a plan: batches, way, warnings, and one line per step, sources first. Local.

    Args:
        plan: What `distribute` would do.
        size: Number of ranks.
        seed: Seed for shuffles without one.
        differences: What `find_differences` found.
        last: Last step of the pipeline.
    """
    lines = [_describe_batches(plan, size), f"Way: {plan.way.value}, because {plan.reason}."]
    lines += [f"Warning: {difference}." for difference in differences]
    rows = [("step", "what happens with it")]
    fixed = beyond_repair(last)
    rows += [
        ("  " * depth + step.text, _action(step, plan, size, seed, step not in fixed))
        for step, depth in _walk(last, 0)
    ]
    width = max(len(text) for text, _ in rows)
    table = [f"{text.ljust(width)} | {action}" for text, action in rows]
    table.insert(1, "-" * width + "-+-" + "-" * max(len(action) for _, action in rows))
    return "\n".join([*lines, "", *table])


def _describe_batches(plan: SplitPlan, size: int) -> str:
    certainty = "" if plan.batching.is_certain else " (guessed)"
    text = f"Batched{certainty}: {plan.batching.reason}."
    if plan.batching.batch_size is None:
        return f"{text} Rank r of {size} takes batch[r::{size}]."
    sizes = split_sizes(plan.batching.batch_size, size)
    shown = ", ".join(str(one) for one in sizes[:8]) + (", ..." if size > 8 else "")
    return (
        f"{text} Of {plan.batching.batch_size} samples rank r of {size} takes batch[r::{size}]: "
        f"{shown} samples."
    )


def _walk(step: Step, depth: int) -> list[tuple[Step, int]]:
    """Steps, sources first; the branches of a merge are indented."""
    deeper = depth + (step.kind is Kind.MERGE)
    return [pair for feeding in step.inputs for pair in _walk(feeding, deeper)] + [(step, depth)]


def _action(step: Step, plan: SplitPlan, size: int, seed: int, repairable: bool) -> str:
    if step in plan.steps[:-1]:
        action = "repeated on micro-batches"
    elif step is plan.split and plan.way is Way.PICK:
        action = "each rank joins only its own rows"
    elif step is plan.split and size == 1:
        action = "kept; batches are counted after it"
    elif step is plan.split:
        action = "kept; each rank's rows are cut out after it"
    elif step.kind is Kind.OPAQUE:
        action = "kept as it is, since it is not understood"
    else:
        action = "kept, on every rank for all samples"
    return "; ".join([action, *_repairs(step, size, seed, repairable)])


def _repairs(step: Step, size: int, seed: int, repairable: bool) -> list[str]:
    if not repairable:
        return []
    found = []
    if step.lacks_seed:
        found.append(f"gets a seed (from {seed})")
    elif step.kind is Kind.SHUFFLE and not step.lacks_seed:
        found.append("keeps its seed")
    if step.lacks_order:
        found.append("made deterministic")
    if step.cache_file and size > 1:
        found.append("one file per rank")
    return found
