"""Run a step serially and by parts, and decide by which rules the parts combine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras

from tnt_keras.probe.comparison.decision import Decision, decide
from tnt_keras.probe.comparison.scenario_comparison import ScenarioComparison
from tnt_keras.probe.comparison.scenarios import make_scenarios
from tnt_keras.probe.comparison.tolerance import scale_of_rounding
from tnt_keras.probe.runs.observation import OF_EACH_RANK, Kind, Quantity
from tnt_keras.probe.runs.step_run import StepRunner
from tnt_keras.probe.samples.first_samples import Samples
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
        is_prediction = step_name == "predict_step"
        self._scenarios = make_scenarios(
            runner,
            few,
            more,
            is_prediction=is_prediction,
            users=UsersCode.of_step(model, step_name),
        )
        self._samples_vary = any(each.has_other_values for each in self._scenarios)
        defaults = _default_rules(model) if step_name == "train_step" else {}
        self._comparison = ScenarioComparison(
            model, runner, self._scenarios, defaults, former.scales
        )

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
        former_rules = self._former.rules if variant == self._former.variant else {}
        decision = decide(
            list(self._comparison.all_fits(rules, variant, former_rules)),
            self._comparison.default_of,
            self._runner.known_variables(),
            rules,
            moves_metrics=variant.moves_metrics,
            samples_vary=self._samples_vary,
            former_rules=former_rules,
        )
        decision.variant = variant
        return decision


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
