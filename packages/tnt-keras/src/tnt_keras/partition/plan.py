"""The plan of a traced graph: what replicas do for each node, as the analysis decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tnt_keras.partition.graph import Edge, FlatGraph, Node
from tnt_keras.partition.rules.registry import Decision
from tnt_keras.partition.value import REPLICATED, Placement, Sharded, Value


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """What replicas do for one node."""

    node: Node
    inputs: tuple[Value, ...]
    demands: tuple[Placement, ...]  # the placements to which inputs are resharded
    outputs: tuple[Value, ...]
    bodies: tuple[Body, ...] = dataclasses.field(default=(), kw_only=True)  # run for the node


class Known(Step):
    """Nothing: the outputs are known."""


class Alias(Step):
    """Nothing: each output is the input at its place."""


class Cut(Step):
    """The operation itself, once. Replicas go on with their rows of its output, or all of it."""


class Broadcast(Step):
    """The operation whose outputs on rank 0 are broadcast. Others may run it for its effects."""


class Check(Step):
    """An assertion, which each replica checks for its own part."""


class Accumulated(Step):
    """A read or an assignment of a variable that holds a partial sum in every process."""


class Count(Step):
    """Shapes and sizes of whole values that are not known before the step runs."""


class Loop(Step):
    """A loop whose variables have the placements of `demands`: an iteration, and the condition."""


class Branch(Step):
    """One of several bodies, chosen by the first input; one if the choice is known."""


@dataclasses.dataclass(frozen=True, eq=False)
class Region(Step):
    """A function of each replica's own rows, with a body for each number of rows that it can have.

    `weighted` are inputs that are derivatives of a replica's own value, which was read as a mean:
    they are multiplied by the replica's share of the rows.
    """

    replica_rows: tuple[int, ...]
    weighted: frozenset[int]


@dataclasses.dataclass(frozen=True, eq=False)
class Compute(Step):
    """The operation itself, in every replica, or once if all replicas would do the same."""

    decision: Decision
    on_demand: bool = False  # a replicated output is computed, as rows or whole, when it is read
    is_gathered: bool = False  # rows are gathered, since no rule applies

    @classmethod
    def by(
        cls, decision: Decision, node: Node, inputs: tuple[Value, ...], outputs: Sequence[Value]
    ) -> Compute:
        """Return what a decision says of a node."""
        return cls(node, inputs, decision.inputs, tuple(outputs), decision)

    def operand_placements(self, rows: Sharded) -> tuple[Placement, ...] | None:
        """Return what rows of an output on demand are made of, None if they must be cut from it."""
        [output], counts = self.outputs, _SHAPE_OPERANDS.get(self.node.type)
        aligned = [
            REPLICATED if i == counts else _aligned(operand, output.rank, rows)
            for i, operand in enumerate(self.inputs)
        ]
        placements = tuple(p for p in aligned if p is not None)
        is_shared_by_all = counts is None and set(placements) == {REPLICATED}
        return None if len(placements) < len(aligned) or is_shared_by_all else placements

    def of_rows(
        self, rows: Sharded, inputs: tuple[Placement, ...], shape_operand: int | None = None
    ) -> Compute:
        """Return what makes rows of an output on demand, of inputs in these placements."""
        [output] = self.outputs
        counts = _SHAPE_OPERANDS.get(self.node.type, shape_operand)
        flags = [axis == rows.axis for axis in range(output.rank)]
        counted = {} if counts is None else {counts: flags}
        decision = dataclasses.replace(
            self.decision, inputs=inputs, outputs=(rows,), counts_rows=counted
        )
        return dataclasses.replace(self, decision=decision, outputs=(output.placed(rows),))


# The operand with the shape of the output, of operations that broadcast a value.
_SHAPE_OPERANDS = {"BroadcastTo": 1, "Fill": 0}


def _aligned(operand: Value, rank: int, rows: Sharded) -> Placement | None:
    """Return the placement of an operand broadcast to a result with rows, None if unknown."""
    axis = rows.axis - rank + operand.rank
    size = operand.known_shape[axis] if axis >= 0 else 1
    return None if size is None else REPLICATED if size == 1 else rows.on_axis(axis)


@dataclasses.dataclass(frozen=True, eq=False)
class Body:
    """A graph: what its arguments are, and what is done with them."""

    flat: FlatGraph
    arguments: tuple[Value, ...]
    steps: tuple[Step, ...]  # in the order of the trace
    values: Mapping[Edge, Value]  # what is known of each output of each node
    outputs: tuple[Placement, ...]  # the placements to which outputs of the graph are resharded

    @property
    def results(self) -> Sequence[Value]:
        """What is known of the outputs, before they are resharded anywhere."""
        return [self.values[edge] for edge in self.flat.outputs]

    def with_inner(self) -> Iterator[Body]:
        """Yield this graph and all that are run in it, however deep."""
        yield self
        for step in self.steps:
            for body in step.bodies:
                yield from body.with_inner()

    def with_outputs(self, outputs: Sequence[Placement]) -> Body:
        """Return the same body with its outputs resharded to other placements."""
        return dataclasses.replace(self, outputs=tuple(outputs))
