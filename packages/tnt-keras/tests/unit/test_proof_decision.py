"""Of the rules that fit, a value gets its default, else the one that fits, else it is a finding."""

from __future__ import annotations

from typing import Any

import pytest

from tnt_keras.probe.comparison.combination import Fit
from tnt_keras.probe.comparison.decision import Decision, decide
from tnt_keras.probe.comparison.explanation import explain_decision, explain_finding
from tnt_keras.probe.runs.observation import Kind, Quantity
from tnt_keras.step.rules import GradientKey, LossCorrection, Rule, StepRules, VariableRule

MEAN, SUM, MAX, SAME = Rule.MEAN, Rule.SUM, Rule.MAX, Rule.SAME
DEFAULTS = {Kind.METRIC: SUM, Kind.VARIABLE: SAME}


def gradient(position: int, application: int = 0) -> Quantity:
    return Quantity(Kind.GRADIENT, GradientKey(application, position), f"weight {position}")


def fit(*rules: Rule, zero: bool = False, **others: Any) -> Fit:
    values = dict.fromkeys(Rule, 3.0)
    return Fit(frozenset(rules), zero, serial=1.5, of_rule=values, deviation=1e-7, **others)


LOG = Quantity(Kind.LOG, ("log",), "log")
ZERO = fit(*Rule, zero=True)


def decided(
    *states: dict[Quantity, Fit],
    moves: bool = False,
    vary: bool = True,
    former: dict[Quantity, frozenset[Rule]] | None = None,
    **known: Any,
) -> Decision:
    return decide(
        list(states),
        lambda quantity: DEFAULTS.get(quantity.kind, MEAN),
        {"counter": "the counter", "total": "the total"},
        StepRules(**known),
        moves_metrics=moves,
        samples_vary=vary,
        former_rules=former or {},
    )


def test_a_default_that_fits_is_kept_though_another_rule_fits_too() -> None:
    decision = decided({gradient(0): fit(MEAN, SAME)})
    assert decision.rules == StepRules()
    assert decision.findings == []


def test_what_is_alike_on_all_ranks_is_undecided_as_long_as_samples_may_be_alike() -> None:
    alike = fit(MEAN, MAX, SAME)
    assert decided({gradient(0): alike}, vary=False).undecided == [gradient(0)]
    assert decided({gradient(0): alike}).undecided == []


def test_what_one_rank_alone_has_is_undecided_since_it_may_be_a_sum_or_a_maximum() -> None:
    decision = decided({LOG: fit(SUM, MAX)})
    assert (decision.rules.logs, decision.undecided) == ({("log",): SUM}, [LOG])


def test_a_rule_must_fit_in_earlier_proofs_too() -> None:
    first = decided({LOG: fit(SUM, MAX)})
    assert decided({LOG: fit(MAX, SAME)}, former=first.fitting).rules.logs == {("log",): MAX}
    [finding] = decided({LOG: fit(MEAN)}, former=first.fitting).findings
    assert finding.quantity == LOG


def test_samples_of_other_values_tell_rules_apart() -> None:
    alike, maximum = fit(MEAN, MAX, SAME), fit(MAX, has_other_values=True)
    assert decided({LOG: alike}, {LOG: maximum}).rules.logs == {("log",): MAX}


@pytest.mark.parametrize(("of_data", "needs"), [(fit(MEAN), True), (fit(), False)])
def test_a_finding_says_whether_the_first_samples_alone_would_show_it(
    of_data: Fit, needs: bool
) -> None:
    decision = decided({gradient(0): of_data}, {gradient(0): fit(SUM, has_other_values=True)})
    [finding] = decision.findings
    assert finding.needs_other_values is needs
    sentence = explain_finding(finding, "train_step")
    assert ("it shows for samples of other values" in sentence) is needs


def test_a_rule_must_fit_in_all_states() -> None:
    decision = decided({gradient(0): fit(MEAN, SUM)}, {gradient(0): fit(SUM)})
    assert decision.rules.gradients == {GradientKey(0, 0): SUM}


def test_what_fits_no_rule_in_all_states_is_a_finding() -> None:
    decision = decided({gradient(0): fit(MEAN)}, {gradient(0): fit(SUM)})
    assert [finding.quantity for finding in decision.findings] == [gradient(0)]


def test_a_value_that_was_zero_is_undecided_and_keeps_the_default() -> None:
    counter = Quantity(Kind.METRIC, "total", "accuracy/total")
    decision = decided({counter: ZERO})
    assert decision.undecided == [counter]
    assert decision.rules == StepRules()


def test_a_zero_gradient_takes_the_rule_of_the_others_of_its_optimizer() -> None:
    decision = decided({gradient(0): ZERO, gradient(1): fit(SUM), gradient(2, 1): fit(MEAN)})
    assert decision.rules.gradients == {GradientKey(0, 0): SUM, GradientKey(0, 1): SUM}
    assert decision.undecided == [gradient(0)]


def test_gradients_that_are_all_sums_are_not_weighted_before_backpropagation() -> None:
    assert not decided({gradient(0): fit(SUM), gradient(1): fit(SUM)}).rules.weights_losses
    assert decided({gradient(0): fit(SUM), gradient(1): fit(MEAN)}).rules.weights_losses


def test_a_counter_of_a_layer_gets_its_rule_with_the_variable() -> None:
    counter = Quantity(Kind.VARIABLE, "counter", "layer/counter")
    decision = decided({counter: fit(SUM)})
    assert decision.rules.variables == [VariableRule("the counter", SUM)]


def test_rules_of_metrics_are_those_of_moves_once_these_were_compared() -> None:
    total = Quantity(Kind.METRIC, "total", "loss/total")
    assert decided({total: fit(MEAN)}).findings
    moved = decided({total: fit(MEAN)}, moves=True)
    assert moved.rules.variables == [VariableRule("the total", MEAN)]


def test_a_loss_that_is_a_sum_is_noted_but_one_that_fits_nothing_is_left_to_its_gradients() -> None:
    loss = Quantity(Kind.LOSS, 0, "squares")
    assert decided({loss: fit(SUM)}).rules.losses == {0: SUM}
    nothing = decided({loss: fit()})
    assert (nothing.rules.losses, nothing.findings) == ({}, [])
    uncorrected = decided({loss: fit(SUM)}, loss_correction=LossCorrection.NONE)
    assert uncorrected.rules.losses == {}


@pytest.mark.parametrize("adds_up", [True, False, None])
def test_slices_are_added_up_concatenated_or_a_finding(adds_up: bool | None) -> None:
    decision = decided({gradient(0): fit(MEAN, adds_up_slices=adds_up)})
    assert decision.rules.slices_by_index == ({GradientKey(0, 0)} if adds_up else set())
    assert bool(decision.findings) == (adds_up is None)


def test_a_value_that_depends_on_the_order_of_rows_is_a_finding_with_that_cause() -> None:
    [finding] = decided({gradient(0): fit(MEAN, depends_on_order=True)}).findings
    assert "depends on the order of the rows" in explain_finding(finding, "train_step")


def test_numbers_that_python_draws_for_samples_are_the_likely_cause() -> None:
    [finding] = decided({gradient(0): fit(MEAN, depends_on_order=True)}).findings
    sentence = explain_finding(finding, "train_step", (), ["numpy.random", "random"])
    for part in ("random numbers of `numpy.random` and `random`", "`tf.random`", "probe="):
        assert part in sentence


def test_the_sentence_on_a_finding_names_it_both_values_and_the_remedy() -> None:
    [finding] = decided({gradient(0): fit()}).findings
    sentence = explain_finding(finding, "train_step")
    for part in ("'weight 0'", "`train_step`", "1.5", "3 as mean", "tnt.batch_mean", "probe="):
        assert part in sentence


def test_the_line_on_a_proof_counts_what_is_equal_and_names_other_rules() -> None:
    decision = decided({gradient(0): fit(SUM), gradient(1): ZERO})
    line = explain_decision(decision, 0.84)
    assert line == (
        "proved: 2 gradients equal to serial within 1e-07, 2 by sum (weight 0, weight 1), "
        "1 undecided so far (weight 1), 0.8 s"
    )


def test_serial_values_that_differ_between_ranks_are_the_cause_of_a_finding() -> None:
    [finding] = decided({gradient(0): fit()}).findings
    text = explain_finding(finding, "train_step", scales=[1.0, 1.0, 3.5])
    assert "up to 1 on rank 0 and 3.5 on rank 2" in text
    assert "alike on all ranks" in text
    rounded = explain_finding(finding, "train_step", scales=[1.0, 1.0 + 1e-6])
    assert rounded == explain_finding(finding, "train_step")
