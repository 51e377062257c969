"""Reports for people: what a partitioned step exchanges, and what all processes compute alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tnt_keras.partition.graph import Node, users_line
from tnt_keras.partition.plan import Body, Branch, Compute, Loop, Step
from tnt_keras.partition.value import (
    REPLICATED,
    ListOf,
    Sharded,
    Value,
    estimated_size,
    is_shared,
    is_symbolic,
)

_LEAST_BYTES = 1024  # of rows that are worth a warning: less takes as long as any message


@dataclasses.dataclass(frozen=True, slots=True)
class Exchanged:
    """A value that processes exchange in each step."""

    kind: str
    name: str
    line: str  # the user's, "" if there is none
    num_bytes: int | None  # of the whole value; None: varies
    is_update: bool  # a gradient
    is_row: bool  # rows of more than one number: features, images, logits
    level: int | None  # number of the exchange; None in a loop or branch


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """What a partitioned step exchanges, and what it computes more than once.

    `replicated_share` is the share of the arithmetic on rows, between 0 and 1, that all processes
    do alike since the rows were gathered.
    """

    exchanged: tuple[Exchanged, ...]
    num_levels: int  # exchanges, each of which waits for the one before
    replicated_share: float
    gathered: tuple[tuple[str, str, str], ...]  # type, name and the user's line
    num_buckets: int | None = None  # of gradients

    @property
    def summary(self) -> str:
        """One line: what is exchanged in each step."""
        gradients = [e for e in self.exchanged if e.is_update]
        values = [e for e in self.exchanged if not e.is_update]
        at_end = [e for e in values if e.level == self.num_levels - 1]
        others = [e for e in values if e.level != self.num_levels - 1]
        parts = []
        if gradients:
            plural = "" if self.num_buckets == 1 else "s"
            buckets = f" in {self.num_buckets} bucket{plural}" if self.num_buckets else ""
            parts.append(f"{_count(gradients, 'gradient')}{buckets} beside backpropagation")
        if at_end:
            parts.append(f"{_count(at_end, 'value')} at the end")
        parts.append(f"{_count(others, 'value')} within the step" if others else "nothing else")
        return ", ".join(parts)

    def table(self) -> str:
        """Return a table with a line for each value that is exchanged."""
        rows = [("kind", "bytes", "exchange", "value", "line")]
        for e in self.exchanged:
            kind = "gradient" if e.is_update else e.kind
            size = "varies" if e.num_bytes is None else str(e.num_bytes)
            level = "blocking" if e.level is None else str(e.level + 1)
            rows.append((kind, size, level, e.name, e.line))
        widths = [*(max(len(row[i]) for row in rows) for i in range(4)), 0]
        padded = ([c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in rows)
        lines = ["  ".join(cells).rstrip() for cells in padded]
        share = f"{self.replicated_share:.0%} of the arithmetic on rows is done by all ranks alike."
        return "\n".join([*lines, share])

    def warnings(self) -> list[str]:
        """Return a sentence for each thing that makes the step slower than it could be."""
        found = [
            f"the rows of {e.name!r} ({e.line or 'no line of the script'}) are gathered in each "
            + ("step" if e.num_bytes is None else f"step, {_bytes(e.num_bytes)}")
            for e in self.exchanged
            if e.kind == "gather"
            and e.is_row
            and e.level != self.num_levels - 1
            and (e.num_bytes is None or e.num_bytes >= _LEAST_BYTES)
        ]
        if self.replicated_share > 0.1:
            lines = sorted({line or name for _, name, line in self.gathered})
            reason = "it uses values without one row per sample, such as ragged ones"
            if lines:
                reason = f"rows are gathered at {', '.join(lines[:3])}"
            share = f"{self.replicated_share:.0%}"
            found.append(f"all ranks do {share} of the arithmetic alike, since {reason}")
        return found


def exchanged_value(
    value: Value, node: Node | None, kind: str, name: str, is_update: bool, level: int | None
) -> Exchanged:
    """Return the description of a value that is exchanged. Local."""
    count = None if is_symbolic(value.num_elements) else value.num_elements
    num_bytes = None if count is None else count * value.dtype.size
    row = value.shape[1:] if value.shape is not None else None
    is_row = isinstance(value.placement, Sharded) and estimated_size(row, 1) != 1
    return Exchanged(kind, name, users_line(node), num_bytes, is_update, is_row, level)


def explain(plan: Body, exchanged: Sequence[Exchanged], num_levels: int) -> Explanation:
    """Return what a plan exchanges and computes alike. Local."""
    work = _Work(
        node
        for node, value in zip(plan.flat.arguments, plan.arguments, strict=True)
        if value.placement == REPLICATED and None in (value.shape or ())
    )
    work.add(plan, 1)
    share = work.alike / (work.alike + work.on_rows) if work.alike else 0.0
    return Explanation(tuple(exchanged), num_levels, share, tuple(work.gathered))


class _Work:
    """The arithmetic of a step: on rows, and what all processes do alike with gathered rows.

    `whole` are the arguments that all processes have whole: ragged and sparse values.
    """

    def __init__(self, whole: Iterable[Node]) -> None:
        self.on_rows = self.alike = 0
        self.gathered: list[tuple[str, str, str]] = []
        self._spoilt = set(whole)

    def add(self, plan: Body, num_times: int) -> None:
        """Add a graph that runs a number of times."""
        for step in plan.steps:
            match step:
                case Compute():
                    self._add(step, num_times)
                case Loop(bodies=(body, condition)):
                    self._enter(step, body)
                    self.add(body, num_times * _num_turns(condition))
                case Branch():
                    for body in step.bodies:
                        self._enter(step, body)
                        self.add(body, num_times)

    def _add(self, step: Compute, num_times: int) -> None:
        node = step.node
        is_alike = all(is_shared(v.placement) for v in step.outputs)
        is_gathered = step.is_gathered or (is_alike and _lists_whole_rows(step))
        if is_gathered:
            self.gathered.append((node.type, node.name, users_line(node)))
        if is_alike and (is_gathered or any(s in self._spoilt for s, _ in node.inputs)):
            self._spoilt.add(node)
            self.alike += num_times * _work(step)
        elif not is_alike:
            self.on_rows += num_times * _work(step)

    def _enter(self, step: Step, body: Body) -> None:
        # Of a branch, the first input chooses.
        pairs = zip(reversed(body.flat.arguments), reversed(step.node.inputs), strict=False)
        for argument, (source, _) in pairs:
            if source in self._spoilt:
                self._spoilt.update((argument, step.node))


def _lists_whole_rows(step: Compute) -> bool:
    """Return whether rows are gathered into a list, as by a loop over the samples."""
    return any(isinstance(v.placement, ListOf) for v in step.outputs) and any(
        isinstance(value.placement, Sharded) and demand == REPLICATED
        for value, demand in zip(step.inputs, step.demands, strict=True)
    )


def _num_turns(condition: Body) -> int:
    """Return how often a loop runs, if it counts to a known number; else 1."""
    limits = [
        condition.values[node.inputs[1]].constant
        for node in condition.flat.nodes
        if node.type == "Less"
    ]
    return max([1, *(int(limit) for limit in limits if limit is not None)])


def _work(step: Compute) -> int:
    """Return about how many multiplications and additions an operation takes."""
    outputs = sum(estimated_size(v.shape, 1) for v in step.outputs)
    sums = ("MatMul", "BatchMatMul", "Einsum", "Conv")
    if any(part in step.node.type for part in sums) and len(step.inputs) >= 2:
        # A sum of products over what the inputs have and the output has not.
        inputs = [estimated_size(v.shape, 1) for v in step.inputs[:3]]
        return max(outputs, round((outputs * inputs[0] * inputs[1]) ** 0.5))
    return outputs


def _count(values: Sequence[Exchanged], what: str) -> str:
    num_bytes = sum(e.num_bytes or 0 for e in values)
    plural = "" if len(values) == 1 else "s"
    return f"{len(values)} {what}{plural} ({_bytes(num_bytes)})"


def _bytes(num_bytes: int) -> str:
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes} B"
