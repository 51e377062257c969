"""The plan of a traced graph: what lanes do for each node, as the analysis decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tnt_keras.partition.flat_graph import Edge, FlatGraph, Node
from tnt_keras.partition.placement import Placement
from tnt_keras.partition.rules.registry import Decision
from tnt_keras.partition.value import Value


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """What lanes do for one node.

    Attributes:
        node: The node.
        inputs: What is known of its inputs.
        demands: The placements to which they are brought.
        outputs: What is known of its outputs, with their placements.
    """

    node: Node
    inputs: tuple[Value, ...]
    demands: tuple[Placement, ...]
    outputs: tuple[Value, ...]

    @property
    def inner(self) -> tuple[Body, ...]:
        """The graphs that are run for the node."""
        return ()


@dataclasses.dataclass(frozen=True, eq=False)
class Known(Step):
    """Nothing: the outputs are known."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alias(Step):
    """Nothing: each output is the input at its place."""


@dataclasses.dataclass(frozen=True, eq=False)
class Compute(Step):
    """The operation itself, in every lane, or once if all lanes would do the same.

    Attributes:
        decision: What the rule decided.
        on_demand: Whether a replicated output is computed when it is read. Where only rows of it
            are read, only these are computed.
        is_gathered: Whether rows are gathered because no rule applies.
    """

    decision: Decision
    on_demand: bool
    is_gathered: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Cut(Step):
    """The operation itself, once. Lanes go on with their rows of its output, or with all of it."""


@dataclasses.dataclass(frozen=True, eq=False)
class OnFirst(Step):
    """The operation whose outputs on rank 0 are broadcast. Others may run it for its effects."""


@dataclasses.dataclass(frozen=True, eq=False)
class Check(Step):
    """An assertion, which each lane checks for its own part."""


@dataclasses.dataclass(frozen=True, eq=False)
class Accumulated(Step):
    """A read or an assignment of a variable that holds an addend in every process."""


@dataclasses.dataclass(frozen=True, eq=False)
class Count(Step):
    """Shapes and sizes of whole values that are not known before the step runs."""


@dataclasses.dataclass(frozen=True, eq=False)
class Loop(Step):
    """A loop whose variables have the placements of `demands`.

    Attributes:
        body: The body of one iteration.
        condition: The graph that says whether there is another iteration.
    """

    body: Body
    condition: Body

    @property
    def inner(self) -> tuple[Body, ...]:
        """That of an iteration, and the condition."""
        return self.body, self.condition


@dataclasses.dataclass(frozen=True, eq=False)
class Branch(Step):
    """One of several bodies, chosen by the first input.

    Attributes:
        bodies: In the order in which the operation's attributes name them. Where the choice is
            known, there is one.
    """

    bodies: tuple[Body, ...]

    @property
    def inner(self) -> tuple[Body, ...]:
        """The branches."""
        return self.bodies


@dataclasses.dataclass(frozen=True, eq=False)
class Region(Step):
    """A function of each lane's own rows.

    Attributes:
        bodies: For each number of rows that a lane can have, the body with these rows as the whole
            batch.
        weighted: Inputs that are derivatives of a lane's own value, which was read as a mean. They
            are multiplied by the lane's share of the rows.
    """

    bodies: Mapping[int, Body]
    weighted: frozenset[int]

    @property
    def inner(self) -> tuple[Body, ...]:
        """One for each number of rows."""
        return tuple(self.bodies.values())


@dataclasses.dataclass(frozen=True, eq=False)
class Body:
    """A graph: what its arguments are, and what is done with them.

    Attributes:
        flat: The graph.
        arguments: What is known of its arguments.
        steps: For each node, in the order of the trace.
        values: What is known of each output of each node.
        outputs: The placements to which the outputs of the graph are brought.
    """

    flat: FlatGraph
    arguments: tuple[Value, ...]
    steps: tuple[Step, ...]
    values: Mapping[Edge, Value]
    outputs: tuple[Placement, ...]

    @property
    def results(self) -> Sequence[Value]:
        """What is known of the outputs, before they are brought anywhere."""
        return [self.values[edge] for edge in self.flat.outputs]

    def with_inner(self) -> Iterator[Body]:
        """Yield this graph and all that are run in it, however deep."""
        yield self
        for step in self.steps:
            for body in step.inner:
                yield from body.with_inner()

    def bringing(self, outputs: Sequence[Placement]) -> Body:
        """Return the same body with its outputs brought to other placements."""
        return dataclasses.replace(self, outputs=tuple(outputs))
