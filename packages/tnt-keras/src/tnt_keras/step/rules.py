"""The rules by which values that a step computes are combined over ranks.

With n_r samples on rank r, n in the global batch and v_r what rank r computes from its samples:

    MEAN    sum_r (n_r / n) * v_r
    SUM     sum_r v_r
    MAX     max_r v_r
    SAME    v_r itself, which all ranks compute alike

Rules of a variable that a step changes are those of its *moves*, v_r = value after - value before,
but for MAX, which is that of the values. Each kind of value has a default, which holds for what
Keras' own losses, metrics and layers compute. Where it does not give the serial value for a user's
code, another rule may; the probe finds it.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import tensorflow as tf


class Rule(enum.Enum):
    """How values of ranks are combined, see the docstring of the module."""

    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    SAME = "same"


class LossCorrection(enum.Enum):
    """Which Keras losses of a step are corrected by their denominators, see `step.losses`."""

    ALL = "all losses"
    NOT_SUMS = 'all losses but those with reduction="sum"'
    NONE = "no loss"


@dataclasses.dataclass(frozen=True)
class GradientKey:
    """One gradient of a step.

    Attributes:
        application: Which call of an optimizer's `apply` in the step, counted from 0.
        position: Its place in the list that was given to `apply`.
    """

    application: int
    position: int


@dataclasses.dataclass(frozen=True, eq=False)
class VariableRule:
    """The rule of a variable that a step changes, other than by an optimizer.

    Attributes:
        variable: A Keras or TensorFlow variable.
        rule: Of its moves.
    """

    variable: Any
    rule: Rule

    def __eq__(self, other: object) -> bool:
        """Compare which variable it is, not the values."""
        if not isinstance(other, VariableRule):
            return NotImplemented
        return self.variable is other.variable and self.rule is other.rule

    def __hash__(self) -> int:
        """Return a number that equal rules have in common."""
        return hash((id(self.variable), self.rule))


@dataclasses.dataclass
class StepRules:
    """The rules of one step of a model where they are not the defaults.

    Attributes:
        gradients: Default MEAN.
        slices_by_index: Sparse gradients of which the slices of ranks with one index are added up;
            by default they are concatenated.
        variables: Of metrics (default: SUM of what the step adds to a zeroed variable), of layers
            (default: see `step.layer_statistics`), and others (default: they stay as they are).
        logs: By path in the dict that the step returns; default MEAN, for values that are no
            metric's result.
        additional_losses: Of the `add_loss` calls of the step, counted from 0; default MEAN.
        losses: Of the calls of Keras losses, counted from 0; default MEAN, of corrected values.
        loss_correction: Which losses are corrected.
        sums_losses: Whether the gradients are those of a sum over samples, see
            `Step.loss_weight`.
        weights_losses: Whether `scale_loss` multiplies by the share of the samples. Not if
            gradients are sums: float16 would overflow at other values than in the serial step.
        completes_results: Whether results of metrics inside of the step are those of the samples of
            all ranks, at the cost of an exchange for each.
        same_outputs: Places among the predictions that do not depend on samples.
        changed: The ids of the `tf.Variable`s that the step was seen to change, if it was proved.
        are_proved: Whether they were compared with the serial step, so that there is no need to
            warn of what may be wrong.
    """

    gradients: dict[GradientKey, Rule] = dataclasses.field(default_factory=dict)
    slices_by_index: set[GradientKey] = dataclasses.field(default_factory=set)
    variables: list[VariableRule] = dataclasses.field(default_factory=list)
    logs: dict[tuple[str, ...], Rule] = dataclasses.field(default_factory=dict)
    additional_losses: dict[int, Rule] = dataclasses.field(default_factory=dict)
    losses: dict[int, Rule] = dataclasses.field(default_factory=dict)
    loss_correction: LossCorrection = LossCorrection.ALL
    sums_losses: bool = False
    weights_losses: bool = True
    completes_results: bool = False
    same_outputs: set[int] = dataclasses.field(default_factory=set)
    changed: frozenset[int] = dataclasses.field(default=frozenset(), compare=False)
    are_proved: bool = dataclasses.field(default=False, compare=False)

    def of_variable(self, variable: Any) -> Rule | None:
        """Return the rule of a variable, None for the default. Local.

        Args:
            variable: A Keras or TensorFlow variable.
        """
        for entry in self.variables:
            if entry.variable is variable:
                return entry.rule
        return None


def scale_of(rule: Rule, share: tf.Tensor, presence: tf.Tensor) -> tf.Tensor:
    """Return what a rank's value is multiplied by before values are added up. Local.

    SAME values are averaged like MEAN: the weights n_r / n add up to 1.

    Args:
        rule: MEAN, SUM or SAME.
        share: float64 scalar, n_r / n.
        presence: float64 scalar, 1 if n_r > 0, else 0.
    """
    return presence if rule is Rule.SUM else share
