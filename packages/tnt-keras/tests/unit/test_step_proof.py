"""A step is proved again in later epochs, and when a setting has become another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.probe.runs.observation import Kind, Quantity
from tnt_keras.probe.step_proof import FormerProofs, StepProof, StepProofs

BIAS = Quantity(Kind.GRADIENT, 0, "bias")
LOG = Quantity(Kind.LOG, ("precision",), "precision")


def due_epochs(proof: StepProof, num_epochs: int) -> list[int]:
    """The epochs at whose first step a look is due; what follows in an epoch is asked too."""
    found = []
    for epoch in range(num_epochs):
        proof.epoch = epoch
        if proof.is_due():
            found.append(epoch)
        assert not proof.is_due()
    return found


def test_a_step_is_looked_at_ever_more_rarely() -> None:
    assert due_epochs(StepProof(), 20) == [1, 2, 4, 8, 16]


def due_calls(num_calls: int) -> list[int]:
    """The calls of `fit` with one epoch each in which a look is due."""
    proof, found = StepProof(), []
    for call in range(num_calls):
        proof.begin_epoch(0)
        if proof.is_due():
            found.append(call)
    return found


def test_epochs_of_all_calls_count_but_the_second_call_has_no_look() -> None:
    assert due_calls(12) == [2, 4, 8]


def test_large_settings_count_when_an_epoch_or_call_begins() -> None:
    weights = tf.Variable(tf.ones([1000]))
    proofs = StepProofs()
    first = proofs.choose("step")
    first.settings = [(weights, weights.numpy())]
    weights.assign(0.5 * weights)
    assert proofs.choose("step") is first
    proofs.begins = True
    second = proofs.choose("step")
    assert second is not first
    second.settings = [(weights, weights.numpy())]
    assert proofs.choose("step") is second


def numbers(*values: float) -> Any:
    return np.array(values if len(values) > 1 else values[0])


def test_an_epoch_that_begins_with_another_setting_has_a_look_with_scales_of_its_own() -> None:
    weight = tf.Variable(0.5)
    proof = StepProof(settings=[(weight, numbers(0.5))], former=FormerProofs({BIAS: 3.0}))
    assert due_epochs(proof, 1) == []
    assert proof.former.scales == {BIAS: 3.0}
    weight.assign(0.1)
    assert due_epochs(proof, 1) == [0]
    assert proof.former == FormerProofs()


def test_a_setting_that_changes_in_each_epoch_is_looked_at_a_few_times_more() -> None:
    weights = tf.Variable([0.5, 0.5])
    proof = StepProof(settings=[(weights, numbers(0.5, 0.25))])
    assert due_epochs(proof, 40) == [*range(12), 16, 32]


def test_what_settings_switch_on_is_proved_on_its_own_once() -> None:
    weight, phase = tf.Variable(0.0), tf.Variable(1)
    proofs = StepProofs()
    first = proofs.choose("step")
    first.settings = [(weight, numbers(0.0)), (phase, numbers(1.0))]
    assert proofs.choose("step") is first
    weight.assign(0.1)
    second = proofs.choose("step")
    assert second is not first
    second.settings = [(weight, numbers(0.1)), (phase, numbers(1.0))]
    weight.assign(0.2)
    assert proofs.choose("step") is second
    phase.assign(2)
    assert proofs.choose("step") not in (first, second)
    weight.assign(0.0)
    phase.assign(1)
    assert proofs.choose("step") is first
    assert proofs.current is first


def test_what_another_step_counts_is_no_setting() -> None:
    seen, proofs = tf.Variable(0), StepProofs()
    first = proofs.choose("step")
    first.settings = [(seen, numbers(0.0))]
    seen.assign(23)
    assert proofs.choose("step", lambda variable: variable is seen) is first
    assert proofs.choose("step") is not first


def test_a_number_that_counts_epochs_is_no_end_of_proofs() -> None:
    epoch, proofs = tf.Variable(0), StepProofs()
    seen = []
    for number in range(20):
        epoch.assign(number)
        proof = proofs.choose("step")
        if proof not in seen:
            proof.settings = [(epoch, numbers(number))]
            seen.append(proof)
    assert len(seen) == 8


def test_values_keep_the_scales_of_the_first_proof() -> None:
    proof = StepProof(former=FormerProofs({BIAS: 3.0}))
    assert due_epochs(proof, 2) == [1]
    assert proof.former.scales == {BIAS: 3.0}


def test_a_step_whose_first_batch_had_one_sample_is_looked_at_in_later_batches() -> None:
    proof = StepProof(had_one_sample=True)
    assert [number for number in range(1, 10) if proof.is_due()] == [2, 3, 5, 9]


def test_one_of_several_settings_that_becomes_zero_is_proved_on_its_own() -> None:
    weights, proofs = tf.Variable([0.5, 0.25]), StepProofs()
    first = proofs.choose("step")
    first.settings = [(weights, numbers(0.5, 0.25))]
    weights.assign([0.75, 0.125])
    assert proofs.choose("step") is first
    weights.assign([0.75, 0.0])
    assert proofs.choose("step") is not first


def test_logs_that_are_undecided_are_looked_at_in_later_batches() -> None:
    proof = StepProof(undecided=[LOG])
    due = [number for number in range(1, 40) if proof.is_due()]
    assert due == [2, 3, 5, 9, 17, 33]
    proof.undecided = [BIAS]
    assert not any(proof.is_due() for _ in range(100))
