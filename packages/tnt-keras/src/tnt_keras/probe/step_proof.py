"""What is known of one step of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from tnt_keras.probe.observation import Quantity
from tnt_keras.step.rules import StepRules


@dataclasses.dataclass
class StepProof:
    """What is known of one step of a model for one kind of data.

    Attributes:
        is_wanted: Whether the next batch is to be looked at.
        rules: That were found.
        undecided: Values that were zero so far, so that any rule would do.
        next_look: The epoch of a `fit` at whose begin they are looked at again.
    """

    is_wanted: bool = True
    rules: StepRules = dataclasses.field(default_factory=StepRules)
    undecided: list[Quantity] = dataclasses.field(default_factory=list)
    next_look: int = 1


class StepProofs:
    """What is known of one step of a model, for all code, variables and data that it ran with.

    Attributes:
        current: That of the latest run; None before the first one.
    """

    def __init__(self) -> None:
        self.current: StepProof | None = None
        self._by_subject: dict[Hashable, StepProof] = {}

    def choose(self, subject: Hashable) -> StepProof:
        """Make current, and return, what is known of the step as it runs now. Local.

        Args:
            subject: The step's code, what it trains, and the kind of its data.
        """
        proof = self._by_subject.get(subject)
        if proof is None:
            proof = self._by_subject[subject] = StepProof()
        self.current = proof
        return proof
