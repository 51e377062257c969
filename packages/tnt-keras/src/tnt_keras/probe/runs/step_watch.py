"""Collect what a step hands to optimizers, to `add_loss` and to its caller while it runs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.probe.runs.observation import Kind, Quantity
from tnt_keras.probe.runs.part_step import PartStep
from tnt_keras.probe.runs.tape_gradients import TapeGradients
from tnt_keras.probe.runs.variable_changes import VariableChanges
from tnt_keras.probe.runs.variable_reads import VariableReads
from tnt_keras.step.complete_results import CompleteResults
from tnt_keras.step.logs import Path, is_of_this_rank, map_logs
from tnt_keras.step.metrics import RecordedResults
from tnt_keras.step.optimizer import come_from_scaled_loss, replaced_method
from tnt_keras.step.predictions import is_dense
from tnt_keras.step.rules import GradientKey
from tnt_keras.step.variables import is_number, name_of

Values = list[tuple[Any, tf.Tensor]]
"""Variables and what they hold at some time."""


@dataclasses.dataclass(frozen=True)
class Followed:
    """What a run takes over from the serial one.

    Attributes:
        applications: What each call of an optimizer made of variables: they are assigned instead of
            calling it.
        metric_states: What the variables of metrics hold at the end. Results of metrics are
            computed from these: they are those of the serial run, unless the metric keeps
            something elsewhere.
    """

    applications: list[Values]
    metric_states: Values


class StepWatch:
    """What one run of a step has handed over, as tensors.

    Args:
        changes: Saves the variables that the step assigns; what optimizers assign is not counted.
        followed: Of the run that this one follows; None if it is the serial one.
        gradients: Those of tapes.
        step: Of a part of the batch, if it is one.
        left_out: Number of the call of an optimizer that does nothing, None if all do their work.

    Attributes:
        values: Gradients, logs, outputs and additional losses.
        weighted: The gradients of losses that were multiplied by the share of the part.
        applied: What each call of an optimizer made of the variables that it changed.
        changes_gradients: Whether an optimizer was given others than those of a tape.
        reads_iterations: Whether the step asked an optimizer how many steps it has made.
    """

    def __init__(
        self,
        changes: VariableChanges,
        followed: Followed | None,
        gradients: TapeGradients,
        step: PartStep | None = None,
        left_out: int | None = None,
    ) -> None:
        self.values: list[tuple[Quantity, Any]] = []
        self.weighted: set[Quantity] = set()
        self.applied: list[Values] = []
        self.changes_gradients = False
        self.reads_iterations = False
        self._changes = changes
        self._followed = followed
        self._gradients = gradients
        self._step = step
        self._left_out = left_out
        self._results = RecordedResults()
        self._num_applications = 0
        self._num_losses = 0
        self._num_additional_losses = 0
        self._is_applying = False

    @contextlib.contextmanager
    def watching(
        self,
        metrics: Sequence[Any],
        complete: CompleteResults | None = None,
        reads: VariableReads | None = None,
    ) -> Iterator[None]:
        """Collect in a with-block around the step. Local.

        Args:
            metrics: Those of the model.
            complete: What computes their results, if the rules of the step ask for it.
            reads: Notes what the step reads outside of optimizers.
        """
        with contextlib.ExitStack() as stack:
            if reads is not None:
                stack.enter_context(reads.watching(lambda: not self._is_applying))
            stack.enter_context(self._results.recording(list(metrics), complete))
            stack.enter_context(self._gradients.watching())
            stack.enter_context(replaced_method("apply", self._applying))
            stack.enter_context(replaced_method("apply_gradients", self._applying_pairs))
            iterations = self._noting_iterations(keras.optimizers.Optimizer.iterations)
            stack.enter_context(replaced(keras.optimizers.Optimizer, "iterations", iterations))
            noting = self._noting_loss(keras.losses.Loss.__call__)
            stack.enter_context(replaced(keras.losses.Loss, "__call__", noting))
            plain_add_loss = keras.layers.Layer.add_loss
            adding = self._adding_loss(plain_add_loss)
            stack.enter_context(replaced(keras.layers.Layer, "add_loss", adding))
            yield

    def note_logs(self, logs: Any) -> None:
        """Collect the logs; results of metrics as they follow from the serial states. Local.

        Args:
            logs: What the step returned.
        """

        def note(path: Path, value: Any) -> Any:
            if not is_of_this_rank(value):
                return value
            compute = self._results.recompute(value)
            kind = Kind.LOG if compute is None else Kind.RESULT
            if compute is not None and self._followed is not None:
                value = compute()
            tensor = tf.convert_to_tensor(value)
            if is_number(tensor.dtype):
                self.values.append((Quantity(kind, path, "/".join(path) or "result"), tensor))
            return tensor

        with self._serial_metric_states():
            map_logs(note, logs)

    @contextlib.contextmanager
    def _serial_metric_states(self) -> Iterator[None]:
        """Let metrics hold what they do at the end of the serial run inside a with-block."""
        states = [] if self._followed is None else self._followed.metric_states
        with self._changes.suspended():
            before = [tf.identity(variable) for variable, _ in states]
            for variable, value in states:
                variable.assign(value)
            yield
            for (variable, _), value in zip(states, before, strict=True):
                variable.assign(value)

    def note_outputs(self, outputs: Any) -> None:
        """Collect predictions. Local.

        Args:
            outputs: What the step returned.
        """
        for index, leaf in enumerate(keras.tree.flatten(outputs)):
            if is_dense(leaf) and is_number(leaf.dtype):  # others are refused when the step runs
                self.values.append((Quantity(Kind.OUTPUT, index, f"output {index}"), leaf))

    def tensors(self) -> tuple[list[Any], list[list[tf.Tensor]]]:
        """Return all that was collected without its names, for a graph to return. Local."""
        applied = [[value for _, value in values] for values in self.applied]
        return [value for _, value in self.values], applied

    def set_tensors(self, tensors: tuple[list[Any], list[list[tf.Tensor]]]) -> None:
        """Replace what was collected while a graph was traced by what the graph gave. Local.

        Args:
            tensors: In the structure of `tensors`.
        """
        values, applied = tensors
        self.values = [
            (quantity, value) for (quantity, _), value in zip(self.values, values, strict=True)
        ]
        self.applied = [
            [(variable, value) for (variable, _), value in zip(names, results, strict=True)]
            for names, results in zip(self.applied, applied, strict=True)
        ]

    def _noting_iterations(self, plain_iterations: property) -> property:
        def iterations(optimizer: Any) -> Any:
            self.reads_iterations |= not self._is_applying
            return plain_iterations.__get__(optimizer)

        return property(iterations)

    def _noting_loss(self, plain_call: Callable[..., Any]) -> Callable[..., Any]:
        def call(loss: Any, *args: Any, **kwargs: Any) -> Any:
            index = self._num_losses
            self._num_losses += 1
            value = plain_call(loss, *args, **kwargs)
            if tf.is_tensor(value) and value.shape.rank == 0:  # else one value for each sample
                quantity = Quantity(Kind.LOSS, index, str(loss.name))
                self.values.append((quantity, tf.stop_gradient(value)))
            return value

        return call

    def _adding_loss(self, plain_add_loss: Callable[..., None]) -> Callable[..., None]:
        def add_loss(layer: Any, loss: Any) -> None:
            leaves = [tf.cast(leaf, tf.float32) for leaf in tf.nest.flatten(loss)]
            total = tf.add_n([tf.reduce_sum(leaf) for leaf in leaves])
            name = str(getattr(layer, "path", layer.name))
            quantity = Quantity(Kind.ADDITIONAL_LOSS, self._num_additional_losses, name)
            self.values.append((quantity, tf.stop_gradient(total)))
            self._num_additional_losses += 1
            plain_add_loss(layer, loss)

        return add_loss

    def _applying(self, plain_apply: Callable[..., Any]) -> Callable[..., Any]:
        def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
            if self._is_applying:  # by an optimizer around this one
                return plain_apply(optimizer, grads, trainable_variables)
            grads = list(grads)
            variables = None if trainable_variables is None else list(trainable_variables)
            return self._note_application(
                optimizer, grads, variables, lambda: plain_apply(optimizer, grads, variables)
            )

        return apply

    def _applying_pairs(self, plain_apply: Callable[..., Any]) -> Callable[..., Any]:
        """Note what an optimizer is given whose own `apply_gradients` may change it."""

        def apply_gradients(optimizer: Any, pairs: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_applying:
                return plain_apply(optimizer, pairs, *args, **kwargs)
            pairs = list(pairs)
            return self._note_application(
                optimizer,
                [gradient for gradient, _ in pairs],
                [variable for _, variable in pairs],
                lambda: plain_apply(optimizer, pairs, *args, **kwargs),
            )

        is_of_keras = plain_apply is keras.optimizers.Optimizer.apply_gradients
        return plain_apply if is_of_keras else apply_gradients

    def _note_application(
        self, optimizer: Any, grads: list[Any], variables: list[Any] | None, apply: Any
    ) -> Any:
        application = self._num_applications
        self._num_applications += 1
        self._note_gradients(application, grads, variables, self._is_weighted(optimizer, grads))
        with self._changes.suspended():
            if self._gradients.are_amplified:
                return None
            if self._followed is not None:
                return self._follow(application)
            if application == self._left_out:
                self.applied.append([])
                return None
            return self._apply(apply)

    def _is_weighted(self, optimizer: Any, grads: list[Any]) -> bool:
        return self._step is not None and come_from_scaled_loss(optimizer, grads, self._step)

    def _note_gradients(
        self, application: int, grads: list[Any], variables: list[Any] | None, is_weighted: bool
    ) -> None:
        for position, gradient in enumerate(grads):
            if gradient is not None:
                key = GradientKey(application, position)
                variable = None if variables is None else variables[position]
                name = f"number {position}" if variable is None else name_of(variable)
                is_new_value = getattr(variable, "overwrite_with_gradient", False)
                quantity = Quantity(Kind.GRADIENT, key, name, is_new_value)
                self.values.append((quantity, gradient))
                self.changes_gradients |= not self._gradients.include(gradient)
                if is_weighted:
                    self.weighted.add(quantity)

    def _apply(self, apply: Callable[[], Any]) -> Any:
        applied = VariableChanges()
        self._is_applying = True
        try:
            with applied.watching():
                result = apply()
        finally:
            self._is_applying = False
        self.applied.append(
            [(variable, tf.convert_to_tensor(variable)) for variable in applied.variables]
        )
        return result

    def _follow(self, application: int) -> None:
        """Give the variables the values that the followed run has after this call."""
        known = [] if self._followed is None else self._followed.applications
        for variable, value in known[application] if application < len(known) else []:
            variable.assign(value)
