"""Run a step serially and by parts, and decide by which rules the parts combine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.probe.comparison.combination import Fit, Fits, compare
from tnt_keras.probe.comparison.decision import Decision, decide, together
from tnt_keras.probe.comparison.outputs import compare_outputs, in_serial_order
from tnt_keras.probe.comparison.scenarios import (
    Scenario,
    UnprovableError,
    UnprovablePartError,
    make_scenarios,
    on_all_ranks,
)
from tnt_keras.probe.comparison.tolerance import Tolerances, coarsest, scale_of_rounding
from tnt_keras.probe.runs.observation import OF_EACH_RANK, Kind, Observation, Quantity
from tnt_keras.probe.runs.part_step import PartStep
from tnt_keras.probe.runs.step_run import StepRunner
from tnt_keras.probe.samples.first_samples import Samples, take_rows
from tnt_keras.probe.samples.users_code import UsersCode
from tnt_keras.probe.step_proof import FormerProofs, Variant
from tnt_keras.step.layer_statistics import default_rule, statistics_variables
from tnt_keras.step.rules import LossCorrection, Rule, StepRules, VariableRule


class Comparison:
    """The runs of one step in all scenarios, and what follows from them. Creation is collective.

    Args:
        model: A built distributed model.
        step_name: "train_step", "test_step" or "predict_step".
        few: The first samples, for the first scenario.
        more: Returns the first samples of the batch, at most so many. Collective.
        runner: Runs the step.
        former: What earlier proofs of the step have shown.

    Raises:
        UnprovableError: On all ranks, if the step cannot be run on one of them.
    """

    def __init__(
        self,
        model: keras.Model,
        step_name: str,
        few: Samples,
        more: Callable[[int], Samples | None],
        runner: StepRunner,
        former: FormerProofs,
    ) -> None:
        self._model = model
        self._runner = runner
        self._former = former
        self._defaults = _default_rules(model) if step_name == "train_step" else {}
        is_prediction = step_name == "predict_step"
        self._scenarios = make_scenarios(
            runner,
            few,
            more,
            is_prediction=is_prediction,
            users=UsersCode.of_step(model, step_name),
        )
        self._samples_vary = any(each.has_other_values for each in self._scenarios)
        types = _types_that_compute(model)
        self._computes_exactly = types == {"float64"}  # to the rounding of data and variables
        self._precision = coarsest(types)
        self._tolerances: dict[tuple[int, bool], Tolerances] = {}
        self._uses_whole_batch = False
        self._applied = {
            id(variable)
            for scenario in self._scenarios
            for values in scenario.reference.after_applications
            for variable, _ in values
        }

    def decide(self) -> Decision:
        """Return the first variant in which all values fit, else the one with most. Collective.

        What earlier proofs have chosen comes first, and is kept where it fits.

        Raises:
            UnprovableError: As at creation.
        """
        best = self._attempt(self._former.variant, StepRules())
        known = best.rules
        if known.losses or known.additional_losses:  # with these the gradients may fit
            best = self._attempt(self._former.variant, known)
        for variant in _others(best):
            if not best.findings:
                break
            other = self._attempt(variant, known)
            best = other if len(other.findings) < len(best.findings) else best
        best.rules.changed = frozenset(self._runner.known_variables())
        best.assigned_weights = self._assigned_weights()
        best.scales = self._scales()
        best.python_generators = sorted(
            {
                name
                for scenario in self._scenarios
                for name in scenario.reference.draws.python_generators
            }
        )
        return best

    def _scales(self) -> dict[Quantity, float]:
        scales: dict[Quantity, float] = {}
        for scenario in self._scenarios[:2]:
            for quantity, seen in scenario.reference.observation.items():
                scale = scale_of_rounding(quantity, seen)
                scales[quantity] = max(scale, scales.get(quantity, 0.0))
        return scales

    def _assigned_weights(self) -> list[str]:
        trainable = {id(variable.value) for variable in self._model.trainable_variables}
        return [
            quantity.name
            for quantity in self._scenarios[0].reference.observation
            if quantity.kind is Kind.VARIABLE and quantity.key in trainable
        ]

    def _attempt(self, variant: Variant, known: StepRules) -> Decision:
        """Compare one variant, with the rules of losses that are known. Collective."""
        observations = [scenario.reference.observation for scenario in self._scenarios[:2]]
        constants = self._runner.variables.constants_of_metrics(observations)
        rules = StepRules(
            variables=[VariableRule(variable, Rule.SAME) for variable in constants],
            losses=dict(known.losses),
            additional_losses=dict(known.additional_losses),
            loss_correction=variant.loss_correction,
            sums_losses=variant.sums_losses,
            completes_results=variant.completes_results,
            are_proved=True,
        )
        decision = decide(
            list(self._all_fits(rules, variant)),
            self._default_of,
            self._runner.known_variables(),
            rules,
            moves_metrics=variant.moves_metrics,
            samples_vary=self._samples_vary,
            former_rules=self._former.rules if variant == self._former.variant else {},
        )
        decision.variant = variant
        return decision

    def _all_fits(self, rules: StepRules, variant: Variant) -> Iterator[Fits]:
        of_data: Fits = {}
        for scenario in self._scenarios:
            try:
                fits = self._fits(scenario, rules, variant, of_data)
            except UnprovableError as error:
                if not scenario.is_made_up:
                    raise UnprovablePartError(str(error)) from error
                continue
            if not scenario.is_made_up:
                of_data = together([of_data, fits])
            yield fits

    def _fits(self, scenario: Scenario, rules: StepRules, variant: Variant, of_data: Fits) -> Fits:
        samples, reference, share = scenario.samples, scenario.reference, scenario.share
        # Code that takes all rows of the batch expects the parts that ranks have in training.
        positions = samples.rows if self._uses_whole_batch else scenario.positions
        step = PartStep(share.num_local, share.num_global, rules)
        part = on_all_ranks(
            lambda: self._runner.part(
                take_rows(samples.all_rows, positions),
                positions if len(positions) else np.zeros(1, np.int64),
                reference,
                step,
                zeroes_metrics=not variant.moves_metrics,
            )
        )
        self._uses_whole_batch |= step.num_batch_operations > 0
        serial = reference.observation

        def fits_within(tolerances: Tolerances) -> Fits:
            fits = compare(serial, part, tolerances, share)
            return fits | compare_outputs(serial, part, positions, tolerances, share)

        fits = fits_within(self._tolerances_in(scenario, measures_noise=False))
        if self._may_be_noise(fits, of_data):
            fits = fits_within(self._tolerances_in(scenario, measures_noise=True))
        return {
            quantity: self._restricted(quantity, fit, scenario)
            for quantity, fit in fits.items()
            if reference.amplification == 1 or quantity.kind is Kind.GRADIENT
        }

    def _restricted(self, quantity: Quantity, fit: Fit, scenario: Scenario) -> Fit:
        """Leave only averages for a variable that an optimizer changes too, alike on all ranks."""
        fit = dataclasses.replace(
            fit,
            are_amplified=scenario.reference.amplification != 1,
            has_other_values=scenario.has_other_values,
        )
        if quantity.kind is Kind.VARIABLE and quantity.key in self._applied:
            fit = dataclasses.replace(fit, rules=fit.rules & {Rule.MEAN, Rule.SAME})
        if quantity.kind in OF_EACH_RANK:
            fit = dataclasses.replace(fit, rules=fit.rules & {Rule.SAME})
        if self._uses_whole_batch:  # then the order of its rows is that of the serial batch
            fit = dataclasses.replace(fit, depends_on_order=False)
        return fit

    def _may_be_noise(self, fits: Fits, of_data: Fits) -> bool:
        """Return whether a value has none of the rules that it may have, be it by rounding alone.

        Args:
            fits: In one scenario, without noise.
            of_data: In the scenarios before it whose samples are those of the data.
        """
        return any(
            self._default_of(quantity) not in fit.rules
            or (quantity in of_data and not of_data[quantity].rules <= fit.rules)
            for quantity, fit in fits.items()
        )

    def _tolerances_in(self, scenario: Scenario, measures_noise: bool) -> Tolerances:
        """Return the tolerances in a scenario. Collective the first time that noise is measured.

        That is after a part has run: the draws of a part show which dimension of a random tensor
        is that of the samples, which those of permuted samples do not.
        """
        key = (id(scenario.reference), measures_noise)
        if key not in self._tolerances:
            self._tolerances[key] = Tolerances(
                scenario.reference.observation,
                self._permuted(scenario) if measures_noise else None,
                self._precision,
                self._former.scales,
                scenario.has_other_values,
            )
        return self._tolerances[key]

    def _permuted(self, scenario: Scenario) -> Observation:
        samples = scenario.samples
        order = np.roll(np.arange(samples.num_rows)[::-1], 1)
        rows = take_rows(samples.all_rows, order)
        # With few made-up samples other sizes of the batch round otherwise, not other orders.
        moves_weights = scenario.has_other_values and not self._computes_exactly
        roundoff = self._precision.roundoff if moves_weights else 0.0
        permuted = on_all_ranks(
            lambda: self._runner.permuted(rows, order, scenario.reference, roundoff)
        )
        return in_serial_order(permuted, order)

    def _default_of(self, quantity: Quantity) -> Rule:
        if quantity.kind is Kind.METRIC:
            return Rule.SUM
        if quantity.kind is Kind.VARIABLE:
            return self._defaults.get(quantity.key, Rule.SAME)
        if quantity.kind in OF_EACH_RANK:
            return Rule.SAME
        return Rule.MEAN


def _others(first: Decision) -> Iterator[Variant]:
    """Yield the variants that may help where the first one left findings."""
    kinds = {finding.quantity.kind for finding in first.findings}
    moves = Kind.METRIC in kinds
    if kinds - {Kind.OUTPUT, Kind.ATTRIBUTE}:
        yield Variant(completes_results=True)
    if moves:
        yield Variant(moves_metrics=True)
    if kinds - OF_EACH_RANK - {Kind.OUTPUT}:
        yield Variant(LossCorrection.NOT_SUMS, moves)
        yield Variant(LossCorrection.NONE, moves)
        yield Variant(LossCorrection.ALL, moves, sums_losses=True)


def _default_rules(model: keras.Model) -> dict[Any, Rule]:
    return {id(variable.value): default_rule(variable) for variable in statistics_variables(model)}


def _types_that_compute(model: keras.Model) -> set[str]:
    layers = all_layers(model)
    quantized = {"float8" for layer in layers if "float8" in str(layer.dtype_policy.name)}
    return {str(layer.compute_dtype) for layer in layers} | quantized
