"""What `fit`, `evaluate` and `predict` of Keras call for each step on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from tnt_keras.calls.current_call import current_call
from tnt_keras.step.batch_part import LocalBatch, part_of, unmarked
from tnt_keras.step.owner import StepOwner
from tnt_keras.step.partitioned_steps import PartitionedSteps
from tnt_keras.step.whole_steps import WholeSteps

Steps: TypeAlias = PartitionedSteps | WholeSteps
"""One kind of step."""


class KerasFunction:
    """The train or test function of a model: computes some steps on the batches of an iterator.

    `num_steps` returns how many steps Keras wants in one call, at most.
    """

    def __init__(self, steps: Steps, owner: StepOwner, num_steps: Callable[[], int]) -> None:
        self.steps = steps
        self._owner = owner
        self._num_steps = num_steps

    def __call__(self, iterator: Any) -> Any:
        """Compute the steps, and return the result of the last one. Collective."""
        require_call(self.steps.name)
        num_steps = self._num_steps()
        element_spec = unmarked(getattr(iterator, "element_spec", None))
        result = None
        for index in range(num_steps):
            try:
                element = next(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                if index:
                    return result
                if num_steps == 1 and element_spec is not None:
                    self.steps.run_without_batch()
                raise StopIteration from None
            result = self._run(element, element_spec)
        return result

    def _run(self, element: Any, element_spec: Any) -> Any:
        try:
            return self.steps.run(part_of(element, self._owner.data_check), element_spec)
        except StopIteration as error:  # which Keras would take for the end of the data
            raise RuntimeError("The code of a step has raised StopIteration.") from error

    @property
    def function_spec(self) -> Any:
        """Says to Keras' `TensorBoard` that there is a graph, once there is."""
        if self.steps.graph is None:
            raise AttributeError("function_spec")
        return tf.function(lambda iterator: None).function_spec

    @property
    def _concrete_variable_creation_fn(self) -> KerasFunction:
        return self

    @property
    def graph(self) -> Any:
        """The graph of a step, as plain Keras traces it."""
        return self.steps.graph


class KerasPredictFunction:
    """The predict function of a model: predicts for a list of batches.

    `plain` makes Keras' own function: ranks with samples of their own may take other numbers of
    steps, so that each predicts alone.
    """

    def __init__(self, steps: Steps, owner: StepOwner, plain: Callable[[], Any]) -> None:
        self.steps = steps
        self._owner = owner
        self._make_plain = plain
        self._plain: Any = None

    def __call__(self, batches: Sequence[Any]) -> Any:
        """Return the predictions for all batches, one after the other. Collective, as a rule."""
        require_call(self.steps.name)
        if isinstance(batches[0], LocalBatch):
            if self._plain is None:
                self._plain = self._make_plain()
            return self._plain([batch.data for batch in batches])
        results = [self.steps.run(part_of(batch, self._owner.data_check)) for batch in batches]
        if len(results) == 1:
            return results[0]
        return keras.tree.map_structure(lambda *leaves: _joined(leaves), *results)


def require_call(name: str) -> None:
    """Check that a method of a distributed model is running, which all ranks have called. Local."""
    if current_call() is None:
        raise RuntimeError(
            f"`{name}` of a distributed model was called, but not by a method of `tnt.Model`, so "
            "that ranks do not know of each other. Call `fit`, `evaluate`, `predict` or "
            "`train_on_batch`; in methods of a class of your own, by `super().fit(...)`, not by "
            "`keras.Model.fit(self, ...)`."
        )


def _joined(leaves: Sequence[Any]) -> Any:
    if isinstance(leaves[0], tf.SparseTensor):
        return tf.sparse.concat(axis=0, sp_inputs=list(leaves))
    join = tf.stack if leaves[0].shape.rank == 0 else tf.concat
    return join(list(leaves), axis=0)
