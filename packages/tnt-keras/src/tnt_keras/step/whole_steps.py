"""Steps that cannot be partitioned since no graph is traced: each rank computes the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.calls.agree import of_master
from tnt_keras.process.output import logger
from tnt_keras.step.batch_part import BatchPart
from tnt_keras.step.owner import StepOwner, step_scope
from tnt_keras.step.variables import (
    array_of,
    replicated_variables,
    synchronize,
    tensorflow_variables,
)
from tnt_keras.step.whole_batch import whole_batch


class WholeSteps:
    """One kind of step that each rank runs on the whole batch, as Python code."""

    def __init__(
        self, name: str, step: Callable[[Any], Any], owner: StepOwner, reason: str
    ) -> None:
        self.name = name
        self.graph: Any = None
        self.tables = [f"{name}: {reason}, so that all ranks compute the whole batch"]
        self._step = step
        self._owner = owner
        self._num_variables = -1
        logger.warning(
            "%s: %s, so that each rank computes the whole batch, and several ranks are not faster "
            "than one.",
            name,
            reason,
        )

    def run(self, part: BatchPart, element_spec: Any = None) -> Any:
        """Compute a step, and return its result. Collective."""
        batch = whole_batch(part)
        with step_scope(self._owner):
            result = self._step(batch)
        if self._owner.model is not None:  # such as a step has just made
            self._owner.add_variables(tensorflow_variables(self._owner.model))
        num_variables = len(replicated_variables(self._owner))
        if num_variables != self._num_variables:  # each rank has made some, with other values
            self._num_variables = num_variables
            synchronize(self._owner)
            result = _of_master_rank(result)
        return result

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
