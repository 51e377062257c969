"""Run a step serially and by parts, in two states, and decide by which rules the parts combine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tnt_comm import CommError
from tnt_keras.collectives.messages import allgather
from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.probe.combination import Fit, Fits, Share, compare
from tnt_keras.probe.decision import Decision, decide
from tnt_keras.probe.observation import Kind, Quantity
from tnt_keras.probe.outputs import compare_outputs, in_serial_order
from tnt_keras.probe.part_step import PartStep
from tnt_keras.probe.reference import Reference
from tnt_keras.probe.samples import Samples, take_rows
from tnt_keras.probe.step_run import StepRunner
from tnt_keras.probe.tape_gradients import AMPLIFICATION
from tnt_keras.probe.tolerance import Precision, Tolerances, coarsest
from tnt_keras.process.rank import get_rank
from tnt_keras.step.layer_statistics import default_rule, statistics_variables
from tnt_keras.step.rules import LossCorrection, Rule, StepRules, VariableRule

_MANY_STEPS = 2**20
"""So late, whatever a step begins to do after some steps has begun."""

Positions = npt.NDArray[np.int64]
_T = TypeVar("_T")


class UnprovableError(Exception):
    """The step could not be run on some samples apart from training; says why."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way in which the step of a part may be computed.

    Attributes:
        loss_correction: Which losses are corrected by their denominators.
        moves_metrics: Whether metrics go on from what they hold, instead of from zero.
        sums_losses: Whether the loss is a sum over samples, see `Step.loss_weight`.
    """

    loss_correction: LossCorrection = LossCorrection.ALL
    moves_metrics: bool = False
    sums_losses: bool = False


class Comparison:
    """The runs of one step on some samples, and what follows from them. Creation is collective.

    A training or test step is compared in two states: the present one, with the parts that ranks
    have in training, and the one after a serial step, with parts of neighbouring samples. What is
    smallest or nearest among all samples may lie in one part by chance, but hardly in both. If the
    step counts steps, it is also compared as it will be after many, and if it changes the gradients
    of its tape, as it would be with much larger ones. A
    prediction is compared in one state, with both kinds of parts.

    Args:
        model: A built distributed model.
        step_name: "train_step", "test_step" or "predict_step".
        samples: The samples.
        runner: Runs the step.

    Raises:
        UnprovableError: On all ranks, if the step cannot be run on one of them.
    """

    def __init__(
        self, model: keras.Model, step_name: str, samples: Samples, runner: StepRunner
    ) -> None:
        self._model = model
        self._samples = samples
        self._share = Share(len(samples.rows), samples.num_rows)
        self._runner = runner
        self._is_prediction = step_name == "predict_step"
        self._defaults = _default_rules(model) if step_name == "train_step" else {}
        self._references = self._eager_or_traced()
        self._tolerances: dict[int, Tolerances] = {}
        self._uses_whole_batch = False
        self._neighbours = _neighbours(samples)
        self._applied = {
            id(variable)
            for reference in self._references
            for values in reference.after_applications
            for variable, _ in values
        }

    def decide(self) -> Decision:
        """Return the first variant in which all values fit, else the one with most. Collective.

        Raises:
            UnprovableError: As at creation.
        """
        best = self._attempt(Variant(), StepRules())
        known = best.rules
        if known.losses or known.additional_losses:  # with these the gradients may fit
            best = self._attempt(Variant(), known)
        for variant in _others(best):
            if not best.findings:
                break
            other = self._attempt(variant, known)
            best = other if len(other.findings) < len(best.findings) else best
        best.rules.changed = frozenset(self._runner.known_variables())
        best.assigned_weights = self._assigned_weights()
        return best

    def _assigned_weights(self) -> list[str]:
        trainable = {id(variable.value) for variable in self._model.trainable_variables}
        return [
            quantity.name
            for quantity in self._references[0].observation
            if quantity.kind is Kind.VARIABLE and quantity.key in trainable
        ]

    def _attempt(self, variant: Variant, known: StepRules) -> Decision:
        """Compare one variant, with the rules of losses that are known. Collective."""
        observations = [reference.observation for reference in self._references[:2]]
        constants = self._runner.variables.constants_of_metrics(observations)
        rules = StepRules(
            variables=[VariableRule(variable, Rule.SAME) for variable in constants],
            losses=dict(known.losses),
            additional_losses=dict(known.additional_losses),
            loss_correction=variant.loss_correction,
            sums_losses=variant.sums_losses,
            are_proved=True,
        )
        fits = [self._fits(0, self._samples.rows, rules, variant)]
        # Code that takes all rows of the batch expects the parts that ranks have in training.
        parts = self._samples.rows if self._uses_whole_batch else self._neighbours
        fits.append(self._fits(0 if self._is_prediction else 1, parts, rules, variant))
        for state in range(2, len(self._references)):
            more = self._fits(state, parts, rules, variant)
            are_amplified = self._references[state].amplification != 1
            fits.append(_of_amplified(more) if are_amplified else more)
        return decide(
            fits,
            self._default_of,
            self._runner.known_variables(),
            rules,
            moves_metrics=variant.moves_metrics,
        )

    def _fits(self, state: int, positions: Positions, rules: StepRules, variant: Variant) -> Fits:
        reference = self._references[state]
        step = PartStep(self._share.num_local, self._share.num_global, rules)
        part = on_all_ranks(
            lambda: self._runner.part(
                take_rows(self._samples.all_rows, positions),
                positions if len(positions) else np.zeros(1, np.int64),
                reference,
                step,
                zeroes_metrics=not variant.moves_metrics,
            )
        )
        self._uses_whole_batch |= step.num_batch_operations > 0
        serial, tolerances = reference.observation, self._tolerances_in(state)
        fits = compare(serial, part, tolerances, self._share)
        fits |= compare_outputs(serial, part, positions, tolerances, self._share)
        return {quantity: self._restricted(quantity, fit) for quantity, fit in fits.items()}

    def _restricted(self, quantity: Quantity, fit: Fit) -> Fit:
        """Leave only averages for a variable that an optimizer changes too, alike on all ranks."""
        if quantity.kind is Kind.VARIABLE and quantity.key in self._applied:
            fit = dataclasses.replace(fit, rules=fit.rules & {Rule.MEAN, Rule.SAME})
        if quantity.kind is Kind.RESULT:
            fit = dataclasses.replace(fit, rules=fit.rules & {Rule.SAME})
        if self._uses_whole_batch:  # then the order of its rows is that of the serial batch
            fit = dataclasses.replace(fit, depends_on_order=False)
        return fit

    def _eager_or_traced(self) -> list[Reference]:
        """Return the serial runs, eager ones if the step allows: they are ready sooner."""
        try:
            return on_all_ranks(self._serial_runs)
        except UnprovableError:
            self._runner.traces = True
            return on_all_ranks(self._serial_runs)

    def _serial_runs(self) -> list[Reference]:
        rows, num_rows = self._samples.all_rows, self._samples.num_rows
        runs = [self._runner.serial(rows, num_rows)]
        if not self._is_prediction:
            runs.append(self._runner.serial(rows, num_rows, runs[0]))
        if runs[0].counters:
            later = [(counter, _after_many_steps(counter)) for counter in runs[0].counters]
            runs.append(self._runner.serial(rows, num_rows, runs[0], later))
        if runs[0].changes_gradients:
            runs.append(self._runner.serial(rows, num_rows, amplification=AMPLIFICATION))
        return runs

    def _tolerances_in(self, state: int) -> Tolerances:
        """Return the tolerances in a state. Collective the first time.

        That is after a part has run: the draws of a part show which dimension of a random tensor
        is that of the samples, which those of permuted samples do not.
        """
        if state not in self._tolerances:
            reference = self._references[state]
            order = np.roll(np.arange(self._samples.num_rows)[::-1], 1)
            rows = take_rows(self._samples.all_rows, order)
            permuted = on_all_ranks(lambda: self._runner.permuted(rows, order, reference))
            self._tolerances[state] = Tolerances(
                reference.observation, in_serial_order(permuted, order), _precision_of(self._model)
            )
        return self._tolerances[state]

    def _default_of(self, quantity: Quantity) -> Rule:
        if quantity.kind is Kind.METRIC:
            return Rule.SUM
        if quantity.kind is Kind.VARIABLE:
            return self._defaults.get(quantity.key, Rule.SAME)
        if quantity.kind is Kind.RESULT:
            return Rule.SAME
        return Rule.MEAN


def _after_many_steps(counter: tf.Variable) -> tf.Tensor:
    steps = min(_MANY_STEPS, counter.dtype.max // 2)  # an int8 does not count further
    return counter + tf.cast(steps, counter.dtype)


def _of_amplified(fits: Fits) -> Fits:
    """Keep what says something where gradients were amplified."""
    return {
        quantity: dataclasses.replace(fit, are_amplified=True)
        for quantity, fit in fits.items()
        if quantity.kind is Kind.GRADIENT
    }


def on_all_ranks(action: Callable[[], _T]) -> _T:
    """Return what an action gives that must succeed on every rank. Collective.

    Args:
        action: Is run on this rank.

    Raises:
        UnprovableError: On all ranks, if it fails on one; says where and why.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    result: Any = None
    cause: Exception | None = None
    try:
        result = action()
    except CommError:
        raise
    except Exception as error:  # whatever a user's step raises
        cause = error
    message = "" if cause is None else f"{type(cause).__name__}: {cause}"
    messages = [each.decode() for each in allgather("proof of the step: errors", message.encode())]
    for rank, text in enumerate(messages):
        if text:
            raise UnprovableError(f"on rank {rank} {text}") from cause
    return result


def _neighbours(samples: Samples) -> Positions:
    """Return as many positions for this rank, but of samples that follow each other. Collective."""
    message = len(samples.rows).to_bytes(8, "little")
    counts = [
        int.from_bytes(each, "little") for each in allgather("proof of the step: parts", message)
    ]
    first = sum(counts[: get_rank()])
    return np.arange(first, first + len(samples.rows))


def _others(first: Decision) -> Iterator[Variant]:
    """Yield the variants that may help where the first one left findings."""
    kinds = {finding.quantity.kind for finding in first.findings}
    moves = Kind.METRIC in kinds
    if moves:
        yield Variant(moves_metrics=True)
    if kinds - {Kind.OUTPUT, Kind.RESULT}:
        yield Variant(LossCorrection.NOT_SUMS, moves)
        yield Variant(LossCorrection.NONE, moves)
        yield Variant(LossCorrection.ALL, moves, sums_losses=True)


def _default_rules(model: keras.Model) -> dict[Any, Rule]:
    return {id(variable.value): default_rule(variable) for variable in statistics_variables(model)}


def _precision_of(model: keras.Model) -> Precision:
    layers = all_layers(model)
    quantized = {"float8" for layer in layers if "float8" in str(layer.dtype_policy.name)}
    return coarsest({str(layer.compute_dtype) for layer in layers} | quantized)
