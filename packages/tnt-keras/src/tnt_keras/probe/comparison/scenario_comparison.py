"""Compare the step by parts with the serial one in one scenario after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tnt_keras.collectives.messages import allreduce
from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.probe.comparison.combination import Fits, compare
from tnt_keras.probe.comparison.decision import together
from tnt_keras.probe.comparison.outputs import compare_outputs, in_serial_order
from tnt_keras.probe.comparison.scenarios import (
    Positions,
    Scenario,
    UnprovableError,
    UnprovablePartError,
    on_all_ranks,
)
from tnt_keras.probe.comparison.tolerance import Tolerances, coarsest
from tnt_keras.probe.runs.full_precision import computing_in, finer_types
from tnt_keras.probe.runs.observation import OF_EACH_RANK, Kind, Observation, Quantity
from tnt_keras.probe.runs.part_step import PartStep
from tnt_keras.probe.runs.step_run import StepRunner
from tnt_keras.probe.samples.first_samples import take_rows
from tnt_keras.probe.step_proof import Variant
from tnt_keras.step.rules import Rule, StepRules

_Rules = Mapping[Quantity, frozenset[Rule]]


class ScenarioComparison:
    """What fits in each scenario, for any variant of the step. Creation is local.

    Where nothing fits some value, and that may be rounding, the scenario is repeated with layers in
    finer types: those with a mixed policy compute in float32, then all in float64. (What a user's
    code itself casts stays so.)

    Args:
        model: A built distributed model.
        runner: Runs the step.
        scenarios: All of them.
        defaults: By the keys of variables, the rules that some have by default.
        former_scales: Of values when the step was first proved.
    """

    def __init__(
        self,
        model: keras.Model,
        runner: StepRunner,
        scenarios: Sequence[Scenario],
        defaults: Mapping[Any, Rule],
        former_scales: Mapping[Quantity, float],
    ) -> None:
        self._model = model
        self._runner = runner
        self._scenarios = scenarios
        self._defaults = defaults
        self._former_scales = former_scales
        self._tolerances: dict[tuple[int, bool], Tolerances] = {}
        self._finer: dict[tuple[int, str], Scenario] = {}
        self._uses_whole_batch = False
        self._applied = {
            id(variable)
            for scenario in scenarios
            for values in scenario.reference.after_applications
            for variable, _ in values
        }

    def all_fits(self, rules: StepRules, variant: Variant, former_rules: _Rules) -> Iterator[Fits]:
        """Yield what fits in each scenario, with rules that the step follows. Collective.

        Args:
            rules: That are known.
            variant: Of the step.
            former_rules: Those that have fitted values in earlier proofs.

        Raises:
            UnprovablePartError: On all ranks, if a part of the data cannot be run on one.
        """
        of_data: Fits = {}
        allowed = dict(former_rules)
        has_findings = False
        for scenario in self._scenarios:
            try:
                fits = self._fits(scenario, rules, variant, of_data)
                if not has_findings and _has_misfits(fits, allowed):
                    finer = self._fits_in_finer_types(scenario, rules, variant, allowed)
                    has_findings = finer is None
                    fits = finer or fits
            except UnprovableError as error:
                if not scenario.is_made_up:
                    raise UnprovablePartError(str(error)) from error
                continue
            if not scenario.is_made_up:
                of_data = together([of_data, fits])
            for quantity, fit in fits.items():
                allowed[quantity] = fit.rules & allowed.get(quantity, fit.rules)
            yield fits

    def default_of(self, quantity: Quantity) -> Rule:
        """Return the rule that a value has unless only another one fits. Pure.

        Args:
            quantity: Names the value.
        """
        if quantity.kind is Kind.METRIC:
            return Rule.SUM
        if quantity.kind is Kind.VARIABLE:
            return self._defaults.get(quantity.key, Rule.SAME)
        if quantity.kind in OF_EACH_RANK:
            return Rule.SAME
        return Rule.MEAN

    def _fits(self, scenario: Scenario, rules: StepRules, variant: Variant, of_data: Fits) -> Fits:
        # Code that takes all rows of the batch expects the parts that ranks have in training.
        positions = scenario.samples.rows if self._uses_whole_batch else scenario.positions
        part = self._part(scenario, positions, rules, variant)
        serial, share = scenario.reference.observation, scenario.share

        def fits_within(tolerances: Tolerances) -> Fits:
            fits = compare(serial, part, tolerances, share)
            fits |= compare_outputs(serial, part, positions, tolerances, share)
            return self._restricted(fits, scenario)

        fits = fits_within(self._tolerances_in(scenario, measures_noise=False))
        if self._may_be_noise(fits, of_data):
            fits = fits_within(self._tolerances_in(scenario, measures_noise=True))
        return fits

    def _part(
        self, scenario: Scenario, positions: Positions, rules: StepRules, variant: Variant
    ) -> Observation:
        """Run the step on this rank's part of the samples."""
        share = scenario.share
        step = PartStep(share.num_local, share.num_global, rules)
        part = on_all_ranks(
            lambda: self._runner.part(
                take_rows(scenario.samples.all_rows, positions),
                positions if len(positions) else np.zeros(1, np.int64),
                scenario.reference,
                step,
                zeroes_metrics=not variant.moves_metrics,
            )
        )
        self._uses_whole_batch |= step.num_batch_operations > 0
        return part

    def _fits_in_finer_types(
        self, scenario: Scenario, rules: StepRules, variant: Variant, allowed: _Rules
    ) -> Fits | None:
        """Return what fits in the first finer type in which something fits every value."""
        for finer in finer_types(self._model):
            with computing_in(finer, self._model):
                try:
                    fits = self._fits(self._repeated(scenario, finer), rules, variant, {})
                except UnprovableError:  # code of the user may not go with this type
                    continue
            if not _has_misfits(fits, allowed):
                return fits
        return None

    def _repeated(self, scenario: Scenario, finer: str) -> Scenario:
        """Return a scenario whose serial run is in the type that layers compute in now."""
        key = id(scenario), finer
        if key not in self._finer:
            rows, num_rows = scenario.samples.all_rows, scenario.samples.num_rows
            reference = on_all_ranks(
                lambda: self._runner.repeated(rows, num_rows, scenario.reference)
            )
            self._finer[key] = dataclasses.replace(scenario, reference=reference)
        return self._finer[key]

    def _restricted(self, fits: Fits, scenario: Scenario) -> Fits:
        """Return fits with the rules that values may have."""
        of_all = scenario.reference.amplification == 1
        return {
            quantity: dataclasses.replace(
                fit,
                rules=fit.rules & self._possible_rules(quantity),
                # After gathering, the order of all rows is that of the serial batch.
                depends_on_order=fit.depends_on_order and not self._uses_whole_batch,
                are_amplified=not of_all,
                has_other_values=scenario.has_other_values,
            )
            for quantity, fit in fits.items()
            if of_all or quantity.kind is Kind.GRADIENT
        }

    def _possible_rules(self, quantity: Quantity) -> set[Rule]:
        if quantity.kind is Kind.VARIABLE and quantity.key in self._applied:
            return {Rule.MEAN, Rule.SAME}  # an optimizer changes it too, alike on all ranks
        return {Rule.SAME} if quantity.kind in OF_EACH_RANK else set(Rule)

    def _may_be_noise(self, fits: Fits, of_data: Fits) -> bool:
        """Return whether a value has none of the rules that it may have, be it by rounding alone.

        Args:
            fits: In one scenario, without noise.
            of_data: In the scenarios before it whose samples are those of the data.
        """
        return any(
            self.default_of(quantity) not in fit.rules
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
            types = _types_that_compute(self._model)
            self._tolerances[key] = Tolerances(
                scenario.reference.observation,
                self._permuted(scenario, types) if measures_noise else None,
                coarsest(types),
                self._former_scales,
                scenario.has_other_values,
            )
        return self._tolerances[key]

    def _permuted(self, scenario: Scenario, types: set[str]) -> Observation:
        samples = scenario.samples
        order = np.roll(np.arange(samples.num_rows)[::-1], 1)
        rows = take_rows(samples.all_rows, order)
        # With few made-up samples other sizes of the batch round otherwise, not other orders.
        moves_weights = scenario.has_other_values and types != {"float64"}
        roundoff = coarsest(types).roundoff if moves_weights else 0.0
        permuted = on_all_ranks(
            lambda: self._runner.permuted(rows, order, scenario.reference, roundoff)
        )
        return in_serial_order(permuted, order)


def _has_misfits(fits: Fits, allowed: _Rules) -> bool:
    """Return whether nothing that fits in earlier scenarios fits a value in one. Collective.

    Args:
        fits: Of the scenario.
        allowed: What has fitted before.
    """
    misfits = (
        fit
        for quantity, fit in fits.items()
        if quantity.kind is not Kind.LOSS  # what comes of it is compared
        and (fit.depends_on_order or not fit.rules & allowed.get(quantity, fit.rules))
    )
    own = np.array([any(True for _ in misfits)], np.float64)
    return bool(allreduce("proof of the step: misfits", own, "max")[0])


def _types_that_compute(model: keras.Model) -> set[str]:
    layers = all_layers(model)
    quantized = {"float8" for layer in layers if "float8" in str(layer.dtype_policy.name)}
    return {str(layer.compute_dtype) for layer in layers} | quantized
