"""Choose the rules of a step from what fits, and name what fits none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tnt_keras.probe.comparison.combination import Fit, Fits
from tnt_keras.probe.runs.observation import Kind, Quantity
from tnt_keras.probe.step_proof import Variant
from tnt_keras.step.rules import LossCorrection, Rule, StepRules, VariableRule

_PREFERENCE = (Rule.MEAN, Rule.SUM, Rule.SAME, Rule.MAX)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A value that no rule makes that of the serial step.

    Attributes:
        quantity: Names it.
        fit: What was found, in the scenario in which it is worst.
        needs_other_values: Whether some rule fits as long as the samples are those of the data.
    """

    quantity: Quantity
    fit: Fit
    needs_other_values: bool = False


@dataclasses.dataclass
class Decision:
    """What follows from the comparison of one variant of a step with the serial one.

    Attributes:
        rules: Of the step.
        chosen: The rule of each value that is not the default.
        findings: Values that fit no rule.
        undecided: Values that fit several rules, among them the one that was taken, so far.
        num_equal: How many values there are of each kind that equal the serial ones.
        deviation: The largest of these values from the serial ones, relative.
        assigned_weights: Names of trainable weights that the step assigns by itself.
        python_generators: Those from which the step draws numbers for its samples: "random" and
            "numpy.random".
        scales: The largest `scale_of_rounding` of the values in the serial runs.
        fitting: The rules that fit values.
        variant: That was compared.
    """

    rules: StepRules
    chosen: dict[Quantity, Rule] = dataclasses.field(default_factory=dict)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    undecided: list[Quantity] = dataclasses.field(default_factory=list)
    num_equal: dict[Kind, int] = dataclasses.field(default_factory=dict)
    deviation: float = 0.0
    assigned_weights: list[str] = dataclasses.field(default_factory=list)
    python_generators: list[str] = dataclasses.field(default_factory=list)
    scales: dict[Quantity, float] = dataclasses.field(default_factory=dict)
    fitting: dict[Quantity, frozenset[Rule]] = dataclasses.field(default_factory=dict)
    variant: Variant = dataclasses.field(default_factory=Variant)


def decide(
    fits_of_scenarios: list[Fits],
    default_of: Callable[[Quantity], Rule],
    variables: Mapping[Any, Any],
    rules: StepRules,
    *,
    moves_metrics: bool,
    samples_vary: bool,
    former_rules: Mapping[Quantity, frozenset[Rule]],
) -> Decision:
    """Choose for each value the default if it fits in all scenarios, else the rule that does. Pure.

    A value that is zero in all scenarios fits every rule. If it is a gradient it takes the rule of
    the other gradients of the same call of an optimizer, which come from the same loss; else the
    default. A value that is the same on all ranks fits several, too. It is decided if the samples
    vary: then it does not depend on them.

    Args:
        fits_of_scenarios: Of one variant of the step.
        default_of: Returns the rule that a value has by default.
        variables: By the key of their quantity.
        rules: What the variant follows already; the rules found are added.
        moves_metrics: Whether metrics did not begin with zero in this variant: their rules are
            those of moves then, and all of them are noted.
        samples_vary: Whether what all ranks have alike cannot come from samples that are alike.
        former_rules: Those that have fitted values in earlier proofs.
    """
    decision = Decision(rules)
    of_all = together(fits_of_scenarios)
    of_data = together([_of_data(fits) for fits in fits_of_scenarios])
    common = _common_rules(of_all)
    for quantity, fit in of_all.items():
        default = default_of(quantity)
        fit = dataclasses.replace(fit, rules=fit.rules & former_rules.get(quantity, fit.rules))
        is_undecided = _is_undecided(fit, samples_vary)
        if quantity.kind is Kind.METRIC and not moves_metrics:
            # What a metric adds to zero, with weighted scalars, is summed or not combined at all.
            fit = dataclasses.replace(fit, rules=fit.rules & {Rule.SUM})
        if quantity.kind is Kind.GRADIENT and fit.says_nothing:
            default = common.get(quantity.key.application, default)
        rule = _choose(fit, default)
        if quantity.kind is Kind.LOSS and (rule is not Rule.SUM or not _corrects_all(rules)):
            continue  # what comes of it is compared
        if rule is None or fit.adds_up_slices is None or fit.depends_on_order:
            fits_data = quantity in of_data and bool(of_data[quantity].rules)
            decision.findings.append(Finding(quantity, fit, fit.has_other_values and fits_data))
            continue
        _count(decision, quantity, fit)
        decision.fitting[quantity] = fit.rules
        if is_undecided:
            decision.undecided.append(quantity)
        _note(decision, quantity, fit, rule, default_of(quantity))
        is_moved_metric = moves_metrics and quantity.kind is Kind.METRIC
        if is_moved_metric or (quantity in decision.chosen and quantity.key in variables):
            rules.variables.append(VariableRule(variables[quantity.key], rule))
    gradient_rules = {_choose(fit, Rule.MEAN) for fit in _decided_gradients(of_all)}
    rules.weights_losses = gradient_rules != {Rule.SUM} or rules.sums_losses
    return decision


def _is_undecided(fit: Fit, samples_vary: bool) -> bool:
    """Return whether rules that fit would give different values for other samples."""
    is_zero = {Rule.MEAN, Rule.SUM} <= fit.rules
    is_of_one_rank = {Rule.SUM, Rule.MAX} <= fit.rules
    return is_zero or is_of_one_rank or (len(fit.rules) > 1 and not samples_vary)


def _of_data(fits: Fits) -> Fits:
    return {quantity: fit for quantity, fit in fits.items() if not fit.has_other_values}


def together(fits_of_scenarios: list[Fits]) -> Fits:
    """Return the rules that fit in every scenario, with that where the values are worst. Pure.

    Args:
        fits_of_scenarios: Of one variant of the step.
    """
    of_all: Fits = {}
    for fits in fits_of_scenarios:
        for quantity, fit in fits.items():
            known = of_all.get(quantity)
            of_all[quantity] = fit if known is None else _of_both(known, fit)
    return of_all


def _of_both(known: Fit, fit: Fit) -> Fit:
    rules = known.rules & fit.rules
    is_known_worst = not known.rules or (rules and len(known.rules) <= len(fit.rules))
    return dataclasses.replace(
        known if is_known_worst else fit,
        rules=rules,
        says_nothing=known.says_nothing and fit.says_nothing,
        deviation=max(known.deviation, fit.deviation),
        adds_up_slices=_slices_of_both(known.adds_up_slices, fit.adds_up_slices),
        depends_on_order=known.depends_on_order or fit.depends_on_order,
        has_other_values=known.has_other_values or fit.has_other_values,
    )


def _slices_of_both(one: bool | None, other: bool | None) -> bool | None:
    """Return how slices are treated in both scenarios: as added up, where that is right in one."""
    return None if one is None or other is None else one or other


def _decided_gradients(fits: Fits) -> list[Fit]:
    return [
        fit
        for quantity, fit in fits.items()
        if quantity.kind is Kind.GRADIENT and not fit.says_nothing
    ]


def _common_rules(fits: Fits) -> dict[int, Rule]:
    """Return for each call of an optimizer the rule on which its decided gradients agree."""
    found: dict[int, set[Rule]] = {}
    for quantity, fit in fits.items():
        if quantity.kind is Kind.GRADIENT and not fit.says_nothing:
            rule = _choose(fit, Rule.MEAN)
            if rule is not None:
                found.setdefault(quantity.key.application, set()).add(rule)
    return {application: rules.pop() for application, rules in found.items() if len(rules) == 1}


def _corrects_all(rules: StepRules) -> bool:
    return rules.loss_correction is LossCorrection.ALL


def _choose(fit: Fit, default: Rule) -> Rule | None:
    return next((rule for rule in (default, *_PREFERENCE) if rule in fit.rules), None)


def _count(decision: Decision, quantity: Quantity, fit: Fit) -> None:
    decision.num_equal[quantity.kind] = decision.num_equal.get(quantity.kind, 0) + 1
    if not fit.says_nothing:
        decision.deviation = max(decision.deviation, fit.deviation)


def _note(decision: Decision, quantity: Quantity, fit: Fit, rule: Rule, default: Rule) -> None:
    """Enter a rule that is not the default among those of the step."""
    rules, key = decision.rules, quantity.key
    if fit.adds_up_slices:
        rules.slices_by_index.add(key)
    if quantity.kind is Kind.LOG:
        rules.logs[key] = rule
    if rule is default:
        return
    decision.chosen[quantity] = rule
    if quantity.kind is Kind.GRADIENT:
        rules.gradients[key] = rule
    elif quantity.kind is Kind.LOSS:
        rules.losses[key] = rule
    elif quantity.kind is Kind.ADDITIONAL_LOSS:
        rules.additional_losses[key] = rule
