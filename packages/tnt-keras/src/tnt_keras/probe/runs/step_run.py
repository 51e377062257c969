"""Run the plain step of a model on some rows, and observe what it computes.

The step is that of plain Keras: the classes that distribution puts in front of those of the model
and of its optimizers are taken off meanwhile. It runs eagerly, and where several of its runs are
compared they begin in the same state, draw the same random numbers for the same sample, and see
the same moments in batch normalisation. After a call of an optimizer they go on with the weights
that the serial run has then, so that what comes after it is compared for the same weights.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.keras_hooks.class_swap import without_mixins
from tnt_keras.probe.runs.batch_moments import BatchMoments
from tnt_keras.probe.runs.computed_size import ComputedSize, size_of
from tnt_keras.probe.runs.draws import Draws
from tnt_keras.probe.runs.observation import Kind, Observation, Observed, Quantity
from tnt_keras.probe.runs.part_step import PartStep, weighted_losses
from tnt_keras.probe.runs.python_state import PythonState
from tnt_keras.probe.runs.reference import Reference
from tnt_keras.probe.runs.step_variables import StepVariables
from tnt_keras.probe.runs.step_watch import Followed, StepWatch, Values
from tnt_keras.probe.runs.tape_gradients import TapeGradients
from tnt_keras.probe.runs.variable_changes import VariableChanges
from tnt_keras.probe.runs.variable_reads import VariableReads
from tnt_keras.step.complete_results import CompleteResults
from tnt_keras.step.context import inlined_functions, serial_step, step_scope
from tnt_keras.step.losses import corrected_losses, scaled_additional_losses
from tnt_keras.step.metrics import weighted_scalars
from tnt_keras.step.variables import name_of

_LOSS_SCALE = 1024.0
"""Of float16 in a probe: the first one of a training overflows more often than not."""


class StepRunner:
    """Run one of the steps of a model from given states. Creation and methods are local.

    Args:
        model: A built distributed model.
        step_name: "train_step", "test_step" or "predict_step".
        optimizers: Those that the model is known to use.
        changes: Saves every variable that a run assigns.
        reads: Notes every variable that a serial run reads.
        python_state: What else runs begin with.

    Attributes:
        traces: Whether the step runs in a graph. Some steps can do nothing else, but random draws
            and batch normalisation are not replayed in a graph.
        variables: What the step may change.
    """

    def __init__(
        self,
        model: keras.Model,
        step_name: str,
        optimizers: Sequence[Any],
        changes: VariableChanges,
        reads: VariableReads,
        python_state: PythonState,
    ) -> None:
        self._model = model
        self._step_name = step_name
        self._optimizers = list(optimizers)
        self._changes = changes
        self._reads = reads
        self._python_state = python_state
        self.traces = False
        self.variables = StepVariables(model, self._optimizers)

    def serial(
        self,
        rows: Any,
        num_rows: int,
        before: Reference | None = None,
        changed: Sequence[tuple[Any, tf.Tensor]] = (),
        amplification: float = 1.0,
    ) -> Reference:
        """Run the serial step on all rows, from the initial state or the end of such a run. Local.

        No run begins at the end of one that has another before it. So its last call of an
        optimizer is left out, since nobody compares what it makes, and the runs that follow it are
        without that call too.

        Args:
            rows: What the step receives.
            num_rows: How many samples that are.
            before: The run before; None for the initial state.
            changed: Variables that begin with other values than in that state, and these values.
            amplification: What the gradients of tapes are multiplied by.
        """
        state = [*([] if before is None else before.after), *changed]
        reference = Reference(state, Draws(), BatchMoments(), amplification)
        if before is not None and not before.counters:  # else it may ask the optimizer
            reference.left_out = len(before.after_applications) - 1
        self._run_serial(rows, num_rows, reference, another_begins_there=before is None)
        return reference

    def repeated(self, rows: Any, num_rows: int, former: Reference) -> Reference:
        """Run the serial step from the same state once more, as layers compute now. Local.

        Args:
            rows: What the step receives.
            num_rows: How many samples that are.
            former: The run that is repeated.
        """
        reference = Reference(
            former.state, Draws(), BatchMoments(), former.amplification, former.left_out
        )
        self._run_serial(rows, num_rows, reference, another_begins_there=False)
        return reference

    def _run_serial(
        self, rows: Any, num_rows: int, reference: Reference, another_begins_there: bool
    ) -> None:
        with reference.draws.recording(num_rows), reference.moments.recording():
            self._run(rows, reference, is_reference=True)
        reference.after = [
            (variable, tf.convert_to_tensor(variable))
            for variable in self._changes.variables
            if another_begins_there or self.variables.is_of_metric(variable)
        ]

    def permuted(
        self,
        rows: Any,
        order: np.ndarray[Any, Any],
        reference: Reference,
        roundoff: float = 0.0,
    ) -> Observation:
        """Run the serial step on the same rows in another order. Local.

        Args:
            rows: What the step receives.
            order: The positions of these rows among those of the reference.
            reference: The serial run.
            roundoff: By which weights are moved up or down, relatively: as if they were rounded
                otherwise.
        """
        moved = [] if roundoff == 0 else self._moved_weights(reference, roundoff)
        from_there = dataclasses.replace(reference, state=[*reference.state, *moved])
        with reference.draws.replaying(order), reference.moments.replaying():
            return self._run(rows, from_there)

    def _moved_weights(self, reference: Reference, roundoff: float) -> Values:
        self._changes.restore()
        begin = {id(variable): value for variable, value in reference.state}
        generator = np.random.default_rng(0)
        moved = []
        for variable in self._model.trainable_variables:
            weights = begin.get(id(variable.value), variable.value)
            signs = generator.choice([-1.0, 1.0], size=weights.shape)
            factors = tf.cast(1.0 + roundoff * signs, weights.dtype)
            moved.append((variable.value, weights * factors))
        return moved

    def part(
        self,
        rows: Any,
        positions: np.ndarray[Any, Any],
        reference: Reference,
        step: PartStep,
        *,
        zeroes_metrics: bool,
    ) -> Observation:
        """Run the step on the rows of this rank, as the distributed step would. Collective.

        Args:
            rows: What the step receives.
            positions: The positions of these rows among those of the reference; of a rank
                without samples that of the duplicate which it computes on.
            reference: The serial run.
            step: Says which part of the batch these rows are.
            zeroes_metrics: Whether metrics begin with zero, and take scalars with the weight of the
                share, as they do by default.
        """
        zeroed = self.variables.sums_of_metrics([reference.observation]) if zeroes_metrics else []
        with (
            reference.draws.replaying(positions),
            reference.moments.replaying(),
            step_scope(step),
            corrected_losses(step, step.denominators),
            scaled_additional_losses(step),
            weighted_scalars(step) if zeroes_metrics else contextlib.nullcontext(),
            weighted_losses(step),
        ):
            return self._run(rows, reference, step=step, zeroed=zeroed)

    def _followed(self, reference: Reference) -> Followed:
        states = [each for each in reference.after if self.variables.is_of_metric(each[0])]
        return Followed(reference.after_applications, states)

    def known_variables(self) -> dict[int, Any]:
        """Return the variables that runs have changed, by the keys of their quantities. Local.

        Those that Keras has made are Keras' variables, others TensorFlow's.
        """
        return {
            id(variable): self.variables.of_keras(variable) for variable in self._changes.variables
        }

    def _run(
        self,
        rows: Any,
        reference: Reference,
        *,
        is_reference: bool = False,
        step: PartStep | None = None,
        zeroed: Sequence[Any] = (),
    ) -> Observation:
        """Run the step from the state of the reference and return what was seen."""
        self._changes.restore()
        self._python_state.restore_attributes()  # generators are those of the draws
        changes = VariableChanges()
        followed = None if is_reference else self._followed(reference)
        gradients = TapeGradients(reference.amplification)
        left_out = reference.left_out if is_reference else None
        watch = StepWatch(changes, followed, gradients, step, left_out)
        size = ComputedSize()
        with contextlib.ExitStack() as stack:
            stack.enter_context(without_mixins(self._model, *self._optimizers))
            stack.enter_context(serial_step())
            stack.enter_context(self._changes.watching())
            before = self._begin(reference.state, zeroed)
            stack.enter_context(changes.watching())
            complete = None
            if step is not None and step.rules.completes_results:
                complete = CompleteResults(zeroed, before, step)
            reads = self._reads if is_reference else None
            stack.enter_context(watch.watching(self.variables.metrics, complete, reads))
            stack.enter_context(size.watching())
            self._execute(rows, watch)
        if is_reference:
            reference.follow(watch)
            reference.num_bytes = size_of(rows) + size.num_bytes
            reference.counters = self.variables.counters(changes)
            reference.scalar_moves = self.variables.scalar_moves(changes)
            if watch.reads_iterations:
                reference.counters += [each.iterations.value for each in self._optimizers]
        seen = {each: _kept(each, value, reference) for each, value in watch.values}
        for quantity in watch.weighted:
            assert step is not None
            seen[quantity] = seen[quantity].unweighted(float(step.share))
        seen.update(self._moves(changes, reference))
        for key, value in self._python_state.changed_numbers().items():
            quantity = Quantity(Kind.ATTRIBUTE, key, self._python_state.name_of(key))
            seen[quantity] = Observed.of(np.float64(value))
        if is_reference:
            reference.observation = seen
        return seen

    def _execute(self, rows: Any, watch: StepWatch) -> None:
        """Run the step, eagerly or in a graph of its own; the watch has values afterwards."""

        def step(rows: Any) -> Any:
            result = getattr(self._model, self._step_name)(rows)
            if self._step_name == "predict_step":
                watch.note_outputs(result)
            else:
                watch.note_logs(result)
            return watch.tensors()

        if not self.traces:
            with inlined_functions():
                step(rows)
            return
        traced = tf.function(step, autograph=False)
        specs = tf.nest.map_structure(tf.type_spec_from_value, rows)
        watch.set_tensors(traced.get_concrete_function(specs)(rows))

    def _begin(self, state: Values, zeroed: Sequence[Any]) -> list[tf.Tensor]:
        """Give variables what they begin with; return what those held that begin with zero."""
        for variable, value in state:
            variable.assign(value)
        for optimizer in self._optimizers:
            if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) and optimizer.built:
                optimizer.dynamic_scale.assign(_LOSS_SCALE)
        before = [tf.identity(variable.value) for variable in zeroed]
        for variable in zeroed:
            variable.assign(tf.zeros_like(variable.value))
        return before

    def _moves(self, changes: VariableChanges, reference: Reference) -> Observation:
        seen: Observation = {}
        for variable in changes.variables:
            kind = self.variables.kind_of(variable)
            if kind is None:
                continue
            name = name_of(self.variables.of_keras(variable))
            quantity = Quantity(kind, id(variable), name)
            before, after = changes.initial(variable), tf.convert_to_tensor(variable)
            like = reference.observation.get(quantity)
            seen[quantity] = Observed.of_move(before, after, like)
        return seen


def _kept(quantity: Quantity, value: Any, reference: Reference) -> Observed:
    if quantity.kind is Kind.OUTPUT:
        return Observed.of_output(value)
    if isinstance(value, tf.IndexedSlices):
        none = np.zeros(0, np.int64)
        return Observed.of_slices(value, reference.slice_rows.get(quantity.key, none))
    return Observed.of(value, reference.observation.get(quantity))
