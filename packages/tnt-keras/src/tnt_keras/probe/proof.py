"""Prove on the first samples of a batch that a step gives on all ranks what it gives on one."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Sequence
from typing import Any

import keras

from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.probe.comparison.decision import Decision
from tnt_keras.probe.comparison.scenarios import UnprovableError
from tnt_keras.probe.comparison.step_comparison import Comparison
from tnt_keras.probe.runs.python_state import PythonState
from tnt_keras.probe.runs.step_run import StepRunner
from tnt_keras.probe.runs.variable_changes import VariableChanges
from tnt_keras.probe.runs.variable_reads import VariableReads
from tnt_keras.probe.samples.first_samples import Samples, are_alike, gather_samples
from tnt_keras.probe.step_proof import FormerProofs, Settings
from tnt_keras.process.memory import give_back_memory
from tnt_keras.process.rank import get_size
from tnt_keras.step.assignments.skipped_assignments import skipped_assignments
from tnt_keras.step.context import Building, step_scope
from tnt_keras.step.metrics import all_metrics
from tnt_keras.step.variables import is_number

_WHOLE_BATCH = sys.maxsize

_MOST_ENTRIES_OF_A_SETTING = 2**16
"""Weights of classes or samples, prototypes of clusters; not the kernels of frozen layers."""


@dataclasses.dataclass(frozen=True)
class Proof:
    """What was found about a step.

    Attributes:
        decision: Its rules, and what fits none.
        settings: Small variables that the step reads and does not change, and their values.
        had_one_sample: Whether there was one, or all were alike, so that most rules fit.
        seconds: That it took.
    """

    decision: Decision
    settings: Settings
    had_one_sample: bool
    seconds: float = 0.0


def prove(
    model: keras.Model,
    step_name: str,
    element: Any,
    optimizers: list[Any],
    former: FormerProofs,
    read_in_trace: Sequence[Any] = (),
) -> Proof | None:
    """Compare the serial step with the distributed one, and put everything back. Collective.

    The first 2n + 1 samples of the batch, so that n ranks have unequal parts, go through the
    serial step (on each rank alike) and, part by part, through that of the ranks; the whole batch,
    if the step cannot be run on so few. It is done from the present state and from the one after a
    serial step: what is zero at first, such as the results of metrics, often is not then.

    Args:
        model: A built distributed model.
        step_name: "train_step", "test_step" or "predict_step".
        element: The batch as the distributed step receives it; None if this rank has none.
        optimizers: Those that the model is known to use.
        former: What earlier proofs of the step have shown.
        read_in_trace: Variables that the step was seen to read when it was traced: eagerly, not all
            reads are seen.

    Returns:
        What was found; None on all ranks if one has no more data.

    Raises:
        UnprovableError: On all ranks, if the step cannot be run in this way on one of them.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    begin = time.perf_counter()
    found = _decide(model, step_name, element, optimizers, former, read_in_trace)
    if found is None:
        return None
    give_back_memory()  # now that no tensor of the runs is left
    return dataclasses.replace(found, seconds=time.perf_counter() - begin)


def _decide(
    model: keras.Model,
    step_name: str,
    element: Any,
    optimizers: list[Any],
    former: FormerProofs,
    read_in_trace: Sequence[Any],
) -> Proof | None:
    """Compare the steps, put everything back, and return what follows; None without data."""
    few = gather_samples(element, 2 * get_size() + 1)
    if few is None:
        return None
    if step_name == "train_step":
        _build_optimizer(model)
    changes, reads = VariableChanges(), VariableReads()
    python_state = PythonState([*all_layers(model), *all_metrics(model), *optimizers])
    more = functools.partial(gather_samples, element)

    def decide(samples: Samples) -> Decision:
        runner = StepRunner(model, step_name, optimizers, changes, reads, python_state)
        return Comparison(model, step_name, samples, more, runner, former).decide()

    try:
        try:
            decision = decide(few)
        except UnprovableError:  # the ten largest errors of a batch, say, need ten
            whole = more(_WHOLE_BATCH)
            if whole is None or whole.num_rows == few.num_rows:
                raise
            decision = decide(whole)
    finally:
        changes.restore()
        python_state.restore()
    of_optimizers = {id(each.value) for optimizer in optimizers for each in optimizer.variables}
    others = [each for each in read_in_trace if id(each) not in of_optimizers]
    settings = _settings(model, changes, [*reads.variables, *others])
    return Proof(decision, settings, are_alike(few))


def _settings(model: keras.Model, changes: VariableChanges, read: Sequence[Any]) -> Settings:
    """Return the small variables that the step reads, and that no run of it has changed."""
    changed = {id(variable) for variable in changes.variables}
    trained = {id(variable.value) for variable in model.trainable_variables}
    return [
        (variable, variable.numpy())
        for variable in {id(each): each for each in read}.values()
        if id(variable) not in changed | trained
        and _is_small(variable)
        and is_number(variable.dtype)
    ]


def _is_small(variable: Any) -> bool:
    num_entries = variable.shape.num_elements()
    return num_entries is not None and num_entries <= _MOST_ENTRIES_OF_A_SETTING


def _build_optimizer(model: keras.Model) -> None:
    """Make the variables of the compiled optimizer as its first `apply` would.

    That is in a graph, unless the model runs eagerly: TensorFlow traces a step that has created
    variables once more, so that what `build` assigns to them is lost.
    """
    optimizer = model.optimizer
    if optimizer is None or optimizer.built or not model.trainable_variables:
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(keras.name_scope(optimizer.name, caller=optimizer))
        if not model.run_eagerly:
            stack.enter_context(step_scope(Building()))
            stack.enter_context(skipped_assignments())
        optimizer.build(model.trainable_variables)
