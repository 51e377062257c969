"""What Keras calls for each step on several ranks, and steps that each rank computes whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.calls.agree import of_master
from tnt_keras.calls.current_call import current_call
from tnt_keras.process.rank import get_size, logger
from tnt_keras.process.step_hashes import note
from tnt_keras.step.batch import Part, part_of, unmarked, whole_batch
from tnt_keras.step.owner import StepOwner, step_scope
from tnt_keras.step.partitioned_steps import PartitionedSteps
from tnt_keras.step.replicas import (
    array_of,
    replicated_variables,
    synchronize,
    tensorflow_variables,
)


class WholeSteps:
    """One kind of step that each rank runs on the whole batch, as Python code."""

    def __init__(self, name: str, step: Callable[[Any], Any], owner: StepOwner) -> None:
        self.name = name
        self.graph: Any = None
        self.tables = [f"{name} runs eagerly, so all ranks compute the whole batch"]
        self._step = step
        self.owner = owner
        self._num_variables = -1
        note("whole", f"{name} runs eagerly, so each rank computes the whole batch")
        logger.warning(
            "%s runs eagerly, so each rank computes the whole batch: several ranks are no faster "
            "than one. [runs-eagerly]",
            name,
        )

    def run(self, part: Part, element_spec: Any = None) -> Any:
        """Compute a step, and return its result. Collective."""
        batch = whole_batch(part)
        with step_scope(self.owner):
            result = self._step(batch)
        if self.owner.model is not None:  # such as a step has just made
            self.owner.add_variables(tensorflow_variables(self.owner.model))
        num_variables = len(replicated_variables(self.owner))
        if num_variables != self._num_variables:  # each rank has made some, with other values
            self._num_variables = num_variables
            synchronize(self.owner)
            result = _of_master_rank(result)
        return result

    def trace_without_batch(self, marked_spec: Any) -> None:
        """Do nothing: Keras traces nothing eagerly. Local."""

    def run_without_batch(self) -> None:
        """Do nothing: at the end of data Keras runs nothing eagerly. Local."""


def _of_master_rank(result: Any) -> Any:
    """Return the numbers that the master rank has computed, in the places of this rank's."""
    leaves = keras.tree.flatten(result)
    own = [array_of(leaf) if _is_number(leaf) else None for leaf in leaves]
    masters = of_master("result of the master rank", own)
    return keras.tree.pack_sequence_as(
        result,
        [
            leaf if array is None else tf.convert_to_tensor(array) if tf.is_tensor(leaf) else array
            for leaf, array in zip(leaves, masters, strict=True)
        ],
    )


def _is_number(leaf: Any) -> bool:
    is_dense = tf.is_tensor(leaf) and not isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor))
    return is_dense or isinstance(leaf, (int, float, np.ndarray, np.generic))


Steps: TypeAlias = PartitionedSteps | WholeSteps
"""One kind of step."""


def new_steps(
    name: str,
    step: Callable[[Any], Any],
    owner: StepOwner,
    *,
    run_eagerly: bool,
    traces_exactly: bool = False,
    compiles: bool = False,
) -> Steps:
    """Return the steps of a function of a batch, which XLA `compiles` if wanted. Local."""
    if run_eagerly:
        return WholeSteps(name, step, owner)
    return PartitionedSteps(name, step, owner, traces_exactly=traces_exactly, compiles=compiles)


def function_for_keras(
    kind: str, steps: Steps, *, num_steps: Callable[[], int], plain: Callable[[], Any]
) -> Any:
    """Return what Keras calls for "train", "test" or "predict" steps of a model. Local.

    `num_steps` returns how many steps Keras wants in one call of the first two, at most; `plain`
    makes Keras' own predict function.
    """
    return _PredictFunction(steps, plain) if kind == "predict" else _StepFunction(steps, num_steps)


class _StepFunction:
    """The train or test function of a model: computes some steps on the batches of an iterator."""

    def __init__(self, steps: Steps, num_steps: Callable[[], int]) -> None:
        self.steps = steps
        self._num_steps = num_steps

    def __call__(self, iterator: Any) -> Any:
        """Compute the steps, and return the result of the last one. Collective."""
        require_call(self.steps.name)
        num_steps = self._num_steps()
        marked_spec = getattr(iterator, "element_spec", None)
        element_spec = unmarked(marked_spec)
        result = None
        for index in range(num_steps):
            try:
                element = next(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                if index:
                    return result
                if marked_spec is not None:  # Keras' function finds out when it was traced
                    self.steps.trace_without_batch(marked_spec)
                    if num_steps == 1:
                        self.steps.run_without_batch()
                raise StopIteration from None
            result = self._run(element, element_spec)
        return result

    def _run(self, element: Any, element_spec: Any) -> Any:
        try:
            return self.steps.run(part_of(element, self.steps.owner.data_check), element_spec)
        except StopIteration as error:  # which Keras would take for the end of the data
            raise RuntimeError("The code of a step has raised StopIteration.") from error

    @property
    def function_spec(self) -> Any:
        """Says to Keras' `TensorBoard` that there is a graph, once there is."""
        if self.steps.graph is None:
            raise AttributeError("function_spec")
        return tf.function(lambda iterator: None).function_spec

    @property
    def _concrete_variable_creation_fn(self) -> _StepFunction:
        return self

    @property
    def graph(self) -> Any:
        """The graph of a step, as plain Keras traces it."""
        return self.steps.graph


class _PredictFunction:
    """The predict function of a model: predicts for a list of batches.

    Ranks with samples of their own may take other numbers of steps, so that each predicts alone.
    """

    def __init__(self, steps: Steps, plain: Callable[[], Any]) -> None:
        self.steps = steps
        self._make_plain = plain
        self._plain: Any = None

    def __call__(self, batches: Sequence[Any]) -> Any:
        """Return the predictions for all batches, one after the other. Collective, as a rule."""
        require_call(self.steps.name)
        if isinstance(batches[0], Part) and batches[0].is_own:
            if self._plain is None:
                self._plain = self._make_plain()
            return self._plain(list(map(unmarked, batches)))
        results = [self.steps.run(part_of(batch, self.steps.owner.data_check)) for batch in batches]
        if len(results) == 1:
            return results[0]
        return keras.tree.map_structure(lambda *leaves: _joined(leaves), *results)


def require_call(name: str) -> None:
    """Check that a method of a distributed model is running, which all ranks have called. Local."""
    if current_call() is None and get_size() > 1:
        raise RuntimeError(
            f"`{name}` of a distributed model was called, but not by a method of `tnt.Model`, so "
            "ranks do not know of each other. Call `fit`, `evaluate`, `predict` or "
            "`train_on_batch`; in methods of your own class, call `super().fit(...)`, not "
            "`keras.Model.fit(self, ...)`."
        )


def _joined(leaves: Sequence[Any]) -> Any:
    if isinstance(leaves[0], tf.SparseTensor):
        return tf.sparse.concat(axis=0, sp_inputs=list(leaves))
    join = tf.stack if leaves[0].shape.rank == 0 else tf.concat
    return join(list(leaves), axis=0)
