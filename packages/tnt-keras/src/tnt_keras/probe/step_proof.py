"""What is known of one step of a model."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tnt_keras.probe.runs.observation import Kind, Quantity
from tnt_keras.step.rules import LossCorrection, Rule, StepRules

Numbers: TypeAlias = "npt.NDArray[Any]"

Settings: TypeAlias = "list[tuple[Any, Numbers]]"
"""Small variables that a step does not change, and their values when it was proved."""

_MOST_ENTRIES_IN_EACH_STEP = 256
"""Of a setting that is looked at before each step; larger ones are when epochs and calls begin."""

_MOST_REPETITIONS = 8
"""Of what a script may do in each epoch or call, such as to count epochs in a variable."""

_DEPENDING_ON_DATA = frozenset({Kind.LOG, Kind.VARIABLE})
"""Kinds of values that are soon decided by other samples.

Others are zero for long, such as the gradient of a bias before a softmax, or follow the rule of
what they belong to.
"""


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way in which the step of a part may be computed.

    Attributes:
        loss_correction: Which losses are corrected by their denominators.
        moves_metrics: Whether metrics go on from what they hold, instead of from zero.
        sums_losses: Whether the loss is a sum over samples, see `Step.loss_weight`.
        completes_results: Whether results of metrics inside of the step are those of all samples.
    """

    loss_correction: LossCorrection = LossCorrection.ALL
    moves_metrics: bool = False
    sums_losses: bool = False
    completes_results: bool = False


@dataclasses.dataclass(frozen=True)
class FormerProofs:
    """What earlier proofs of a step have shown, with the same settings.

    Attributes:
        scales: `scale_of_rounding` of values in the first of them.
        rules: Those that have fitted values in all of them, in the variant.
        variant: Of the step, as it was chosen.
    """

    scales: dict[Quantity, float] = dataclasses.field(default_factory=dict)
    rules: dict[Quantity, frozenset[Rule]] = dataclasses.field(default_factory=dict)
    variant: Variant = Variant()


@dataclasses.dataclass
class StepProof:
    """What is known of one step of a model for one kind of data.

    Attributes:
        is_wanted: Whether the next batch is to be looked at.
        rules: That were found.
        undecided: Values that fit several rules so far.
        had_one_sample: Whether the batch had one, or all were alike, so that most rules fit.
        settings: Small variables that the step does not change, such as the weight of a loss, and
            their values when it was proved.
        former: What the proofs with such settings have shown.
        epoch: Counted from 0, if no step of it has run yet; see `begin_epoch`.
        next_look: The epoch from which a look is due.
        num_calls: Of `fit`, `evaluate` or `predict` that were looked at since there was one sample.
        num_changes: Epochs that have begun with other settings, and were looked at for that.
        num_batches: Looked at or not, since the step was first proved.
        num_epochs: That have begun, of all calls of `fit`.
    """

    is_wanted: bool = True
    rules: StepRules = dataclasses.field(default_factory=StepRules)
    undecided: list[Quantity] = dataclasses.field(default_factory=list)
    had_one_sample: bool = False
    settings: Settings = dataclasses.field(default_factory=list)
    former: FormerProofs = dataclasses.field(default_factory=FormerProofs)
    epoch: int | None = None
    next_look: int = 1
    num_calls: int = 0
    num_changes: int = 0
    num_batches: int = 0
    num_epochs: int = 0

    def begin_epoch(self, epoch: int) -> None:
        """Note that an epoch begins. Local.

        Epochs of all calls of `fit` count, since loops over calls with one epoch each are common;
        but the second call of two has no look for that.

        Args:
            epoch: Its number in its call of `fit`, from 0.
        """
        self.epoch = self.num_epochs if epoch > 0 or self.num_epochs > 1 else 0
        self.num_epochs += 1

    def begin_call(self) -> None:
        """Let the next batch be looked at if the last one that was had one sample. Local."""
        if self.had_one_sample and self.num_calls < _MOST_REPETITIONS:
            self.num_calls += 1
            self.is_wanted = True

    def is_due(self) -> bool:
        """Return whether the step is to be proved again, before it runs on a batch. Local.

        Where logs and variables are undecided, or all values, it is at batches 2, 3, 5, 9 and so
        on, besides in the first of some epochs.
        """
        num_before = self.num_batches
        self.num_batches += 1
        is_due = self._begins_due_epoch()
        depends_on_data = self.had_one_sample or any(
            each.kind in _DEPENDING_ON_DATA for each in self.undecided
        )
        is_power_of_two = num_before > 0 and num_before & (num_before - 1) == 0
        return is_due or (depends_on_data and is_power_of_two)

    def is_about_this(self, is_changed: Callable[[Any], bool], most_entries: int) -> bool:
        """Return whether the settings switch on the parts of the step that were proved. Local.

        A setting does so by being zero or not, and if it is a whole number, by that.

        Args:
            is_changed: Whether some step of the model changes a variable: it is no setting then,
                but a counter of training steps, say, for an evaluation.
            most_entries: Larger settings are taken as they were.
        """
        return all(
            _switch_the_same(variable.numpy(), value)
            for variable, value in self.settings
            if value.size <= most_entries and not is_changed(variable)
        )

    def _begins_due_epoch(self) -> bool:
        """Return whether the first step follows of an epoch in which the step is proved again.

        It is in epochs 1, 2, 4, 8 and so on: with other weights, values that were zero may be it no
        longer, and predictions beyond a threshold. So may settings be, whose first changes count.
        """
        epoch, self.epoch = self.epoch, None
        if epoch is None:
            return False
        is_changed = any(
            not np.array_equal(variable.numpy(), value) for variable, value in self.settings
        )
        is_due = epoch >= self.next_look
        if is_due:
            self.next_look = max(1, 2 * epoch)
        elif is_changed and self.num_changes < _MOST_REPETITIONS:
            self.num_changes += 1
            is_due = True
        if is_due and is_changed:
            self.former = FormerProofs()  # what has been added may be small
        return is_due


def _switch_the_same(one: Numbers, other: Numbers) -> bool:
    """Return whether two values of a setting have the same whole numbers at the same places."""
    # It is asked before each step, and most settings stay as they are.
    return np.array_equal(one, other) or np.array_equal(_positions(one), _positions(other))


def _positions(setting: Numbers) -> Numbers:
    """Return whole numbers as they are, and infinity for all others."""
    return np.where(setting == np.round(setting), setting, np.inf)


class StepProofs:
    """What is known of one step of a model, for all code, variables, data and settings so far.

    Attributes:
        current: That of the latest run; None before the first one.
        begins: Whether an epoch or call begins with the next step.
    """

    def __init__(self) -> None:
        self.current: StepProof | None = None
        self.begins = True
        self._by_subject: dict[Hashable, list[StepProof]] = {}

    def choose(
        self, subject: Hashable, is_changed: Callable[[Any], bool] = lambda variable: False
    ) -> StepProof:
        """Make current, and return, what is known of the step as it runs now. Local.

        Args:
            subject: The step's code, what it trains, and the kind of its data.
            is_changed: As for `StepProof.is_about_this`.
        """
        proofs = self._by_subject.setdefault(subject, [])
        most_entries = sys.maxsize if self.begins else _MOST_ENTRIES_IN_EACH_STEP
        self.begins = False
        # The current one first: others may differ from it in large settings alone.
        latest = id(self.current)
        known = sorted(proofs, key=lambda each: id(each) != latest or not each.settings)
        fitting = (each for each in known if each.is_about_this(is_changed, most_entries))
        proof = next(fitting, None)
        if proof is None and len(proofs) < _MOST_REPETITIONS:
            proof = StepProof()
            proofs.append(proof)
        self.current = proof or proofs[-1]
        return self.current
