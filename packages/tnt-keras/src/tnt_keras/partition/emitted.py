"""Values in the graph that is being built."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from tnt_keras.partition.flat_graph import Node
from tnt_keras.partition.placement import Placement
from tnt_keras.partition.plan import Compute
from tnt_keras.partition.value import Value


class Emitted:
    """A value in the graph that is being built, in all placements to which it was brought.

    For each placement there is one tensor if all lanes share it, else one for each lane of this
    process. `source` computes the value on demand; `node` is for messages.
    """

    __slots__ = ("node", "source", "tensors", "value")

    def __init__(
        self,
        value: Value,
        tensors: Sequence[tf.Tensor] | None,
        node: Node | None,
        source: OnDemand | None = None,
    ) -> None:
        self.value = value
        self.node = node
        self.source = source
        self.tensors: dict[Placement, list[tf.Tensor]] = {}
        if tensors is not None:
            self.tensors[value.placement] = list(tensors)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OnDemand:
    """An operation that is made when its output is read."""

    step: Compute
    inputs: tuple[Emitted, ...]
