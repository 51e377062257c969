"""A Keras model whose training step is a function of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.loops.arguments import Layout, call_with
from tnt_keras.loops.used_objects import UsedObjects
from tnt_keras.step.batch_ops import gather_batch
from tnt_keras.step.context import current_step, is_building
from tnt_keras.step.logs import Path, map_logs


class StepModel(keras.Model):
    """A model whose `train_step` calls a function, with all that the function uses as its parts.

    What the steps of distributed models have then holds for the function: reduced gradients,
    global metrics, a proof.

    Args:
        function: Of the user.
        layout: Of its arguments.
        scalars: Values of those that are scalars.
        name: Of the function.
        run_eagerly: Whether the function is called anew in each step.

    Attributes:
        function: As above.
        function_name: Its name.
        layout: As above.
        scalars: Variables for the arguments that are scalars: their values change from step to
            step, and the proof looks at them as at any variable that a step reads.
    """

    optimizer = None  # the function has its own, if any
    train_function: Any

    def __init__(
        self,
        function: Callable[..., Any],
        layout: Layout,
        scalars: tuple[tf.Tensor, ...],
        name: str,
        run_eagerly: bool,
    ) -> None:
        super().__init__(name=name)
        self.function = function
        self.function_name = name
        self.layout = layout
        self.scalars = [tf.Variable(value, trainable=False) for value in scalars]
        self.run_eagerly = run_eagerly
        self.jit_compile = False
        self._parts: list[Any] = []
        self._used_metrics: list[Any] = []
        self._without_rows: set[Path] = set()

    def train_step(self, data: tuple[Any, ...]) -> Any:
        """Call the function.

        Args:
            data: The arguments with samples.

        Returns:
            What the function returns. Tensors with one row for each sample are those of the
            global batch.
        """
        scalars = [tf.identity(variable) for variable in self.scalars]
        if not is_building():
            return self._with_all_rows(
                call_with(self.function, self.layout, data, scalars), _num_rows(data)
            )
        used = UsedObjects()
        with used.watching():
            result = call_with(self.function, self.layout, data, scalars)
        self._parts = used.layers
        self._used_metrics = used.metrics
        return result

    @property
    def used_layers(self) -> list[Any]:
        """The layers that the function calls, models among them."""
        return list(self._parts)

    def make_train_function(self, force: bool = False) -> Any:
        """Make the function that runs a step on the next element of an iterator. Local.

        Unlike that of Keras it is traced for each size of the batch, as a `tf.function` is: the
        user's function may ask for static sizes.

        Args:
            force: Whether to make it anew.
        """
        if self.train_function is None or force:
            graph = tf.function(self.train_step, autograph=False)
            step = self.train_step if self.run_eagerly else graph
            self.train_function = lambda iterator: step(next(iterator))
        return self.train_function

    def _with_all_rows(self, result: Any, num_rows: int | None) -> Any:
        def gather(path: Path, value: Any) -> Any:
            if not tf.is_tensor(value) or value.shape.rank in (0, None):
                return value
            if value.shape[0] != num_rows:  # by chance there may be as many with some samples
                self._without_rows.add(path)
            return value if path in self._without_rows else _of_global_batch(value)

        return map_logs(gather, result)


def _of_global_batch(rows: tf.Tensor) -> tf.Tensor:
    all_rows = gather_batch(rows)
    step = current_step()
    if step is not None:
        step.complete_values.append(all_rows)
    return all_rows


def _num_rows(data: Any) -> int | None:
    leaf = tf.nest.flatten(data)[0]
    return leaf.shape[0]
