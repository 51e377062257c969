"""Prove each step of a model on the first batch that it gets, before the step runs."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any

import keras
import numpy as np

from tnt_keras.collectives.messages import allgather
from tnt_keras.keras_hooks.class_swap import MixinBase, plain_class
from tnt_keras.probe.comparison.explanation import (
    explain_decision,
    explain_failure_on_part,
    explain_finding,
)
from tnt_keras.probe.comparison.scenarios import UnprovableError, UnprovablePartError
from tnt_keras.probe.proof import Proof, prove
from tnt_keras.probe.samples.first_element import FirstElement
from tnt_keras.probe.step_proof import FormerProofs, StepProof
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_size
from tnt_keras.step.errors import ProbeError
from tnt_keras.step.variables import check_replicas

_MOST_WARNINGS = 5


class ProvedSteps(MixinBase):
    """Mixin for a Keras model: its functions prove their step before they run it first."""

    def make_train_function(self, force: bool = False) -> Any:
        """Make the function that Keras' `fit` calls for each step, as Keras does. Local."""
        made = super().make_train_function(force)
        _prove_first(self, "train_step", "train_function")
        return made

    def make_test_function(self, force: bool = False) -> Any:
        """Make the function that Keras' `evaluate` calls for each step, as Keras does. Local."""
        made = super().make_test_function(force)
        _prove_first(self, "test_step", "test_function")
        return made

    def make_predict_function(self, force: bool = False) -> Any:
        """Make the function that Keras' `predict` calls for each step, as Keras does. Local."""
        made = super().make_predict_function(force)
        _prove_first(self, "predict_step", "predict_function")
        return made


def allow_another_proof(model: Any, epoch: int) -> None:
    """Let the training step be proved again in an epoch if need be. Local.

    Args:
        model: A distributed model.
        epoch: Of `fit`, counted from 0, which is about to begin.
    """
    proofs = model._tnt_preparation.proofs_of("train_step")
    proofs.begins = True
    if proofs.current is not None:
        proofs.current.begin_epoch(epoch)


def _prove_first(model: Any, step_name: str, function_name: str) -> None:
    """Let a function of the model prove its step before it runs it for the first time."""
    if get_size() == 1 or model._tnt_communication.probe == "off":
        return
    function = getattr(model, function_name)
    if function is None:
        return
    rules = model._tnt_communication.rules
    is_new = not isinstance(function, FirstElement)
    # What a graph trains and does was settled when it was made, whatever the model says since.
    if is_new or model.run_eagerly:
        # Whoever has a function made anew may have changed what it is made of.
        model._tnt_preparation.num_functions += is_new
        number = model._tnt_preparation.num_functions if is_new else function.subject[-1]
        subject = (*_subject(model, step_name), number)
    else:
        subject = function.subject

    def is_changed(variable: Any) -> bool:
        return any(id(variable) in of_step.changed for of_step in rules.values())

    def wants_to_look(kind: Hashable) -> bool:
        proofs = model._tnt_preparation.proofs_of(step_name)
        proof = proofs.choose((subject, kind), is_changed)
        if step_name != "predict_step":  # of which ranks may take different numbers
            proof.is_wanted |= proof.is_due() and _subject(model, step_name) == subject[:-1]
        return proof.is_wanted or proof.rules != rules[step_name]

    def look(element: Any) -> None:
        proof = model._tnt_preparation.proofs_of(step_name).current
        if proof.is_wanted:
            _find_rules(model, step_name, element, proof)
        are_new, rules[step_name] = proof.rules != rules[step_name], proof.rules
        if are_new:
            remake = getattr(super(ProvedSteps, model), f"make_{function_name}")
            remake(force=True)
            wrapped.replace(getattr(model, function_name))
            setattr(model, function_name, wrapped)

    if isinstance(function, FirstElement):
        function = function.function
    wrapped = FirstElement(function, look, wants_to_look, subject)
    setattr(model, function_name, wrapped)


def _subject(model: Any, step_name: str) -> tuple[Hashable, ...]:
    """Return what a proof is about; it changes with the step's code and what it trains."""
    return (
        getattr(plain_class(type(model)), step_name),
        getattr(model, "optimizer", None),  # a model that predicts need not be compiled
        tuple(id(variable) for variable in model.trainable_variables),
        _switches(model) if model.run_eagerly else (),
    )


def _switches(model: Any) -> Hashable:
    """Return the attributes of a model by which its code may choose what it does."""
    return tuple(
        (name, value)
        for name, value in vars(model).items()
        if isinstance(value, (bool, str)) and not name.startswith("_") and name not in _of_keras()
    )


@functools.cache
def _of_keras() -> frozenset[str]:
    return frozenset({*vars(keras.Model()), "stop_training"})


def _find_rules(model: Any, step_name: str, element: Any, known: StepProof) -> None:
    """Prove a step and note its rules; after an error the next run of the step proves it again."""
    communication = model._tnt_communication
    try:
        read = model._tnt_preparation.read_variables.get(step_name, [])
        proof = prove(model, step_name, element, communication.optimizers, known.former, read)
    except UnprovablePartError as error:
        sentence = explain_failure_on_part(_shown(model, step_name), str(error))
        if communication.probe == "error":
            raise ProbeError(sentence) from error
        logger.warning("%s", sentence)
        known.is_wanted = False
        return
    except UnprovableError as error:
        logger.warning(
            "It could not be proved that `%s` gives on several ranks what it gives on one, since "
            "it cannot be run on some samples apart from training: %s. Values are combined as "
            "those of Keras' own steps are.",
            _shown(model, step_name),
            error,
        )
        known.is_wanted = False
        return
    if proof is None:  # no data
        return
    if proof.decision.findings:
        check_replicas(model)  # else the model is blamed for what a callback of one rank has done
    _report(proof, _shown(model, step_name), communication.probe, _scales_of_ranks(proof))
    known.undecided = proof.decision.undecided
    known.had_one_sample = proof.had_one_sample
    known.settings = proof.settings
    scales = known.former.scales or proof.decision.scales
    known.former = FormerProofs(scales, proof.decision.fitting, proof.decision.variant)
    known.rules = proof.decision.rules
    known.is_wanted = False


def _shown(model: Any, step_name: str) -> str:
    """Return what the user calls a step: a function of their own has another name."""
    return str(getattr(model, "function_name", step_name))


def _scales_of_ranks(proof: Proof) -> list[list[float]]:
    """Return the largest serial entry of each finding as every rank computed it. Collective."""
    own = np.array([finding.fit.scale for finding in proof.decision.findings])
    if not own.size:
        return []
    of_ranks = [np.frombuffer(each) for each in allgather("serial values", own.tobytes())]
    return np.transpose(of_ranks).tolist()


def _report(proof: Proof, step_name: str, probe: str, scales: Sequence[Sequence[float]]) -> None:
    findings = proof.decision.findings
    causes = proof.decision.assigned_weights, proof.decision.python_generators
    sentences = [
        explain_finding(finding, step_name, *causes, of_ranks)
        for finding, of_ranks in zip(findings[:_MOST_WARNINGS], scales, strict=False)
    ]
    if not findings:
        logger.info("%s %s", step_name, explain_decision(proof.decision, proof.seconds))
    elif probe == "error":
        more = f" ({len(findings) - 1} more values differ.)" if len(findings) > 1 else ""
        raise ProbeError(sentences[0] + more)
    for sentence in sentences:
        logger.warning("%s", sentence)
