"""The functions that Keras calls for each step, computed by all ranks together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tnt_keras.keras_hooks.class_swap import MixinBase, has_keras_methods
from tnt_keras.process.rank import get_size
from tnt_keras.step.batch_norm_region import fused_batch_norm
from tnt_keras.step.keras_function import KerasFunction, KerasPredictFunction, Steps, require_call
from tnt_keras.step.owner import StepOwner, is_inside_step
from tnt_keras.step.partitioned_steps import PartitionedSteps
from tnt_keras.step.whole_steps import WholeSteps


class DistributedFunctions(MixinBase):
    """Mixin for a Keras model: on several ranks its steps are partitioned along the batch.

    On one rank they run untouched, but that batch normalisation is fused.
    """

    _tnt_owner: StepOwner
    _tnt_signatures_of_others = ("train_step", "test_step")

    def train_step(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Train on one batch, as the model's own class does, inside a call of all ranks. Local."""
        with self._tnt_step("train_step"):
            return super().train_step(data, *args, **kwargs)

    def test_step(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate one batch, as the model's own class does, inside a call of all ranks. Local."""
        with self._tnt_step("test_step"):
            return super().test_step(data, *args, **kwargs)

    def make_train_function(self, force: bool = False) -> Any:
        """Make the function that `fit` calls for each step, anew if it is to. Local."""
        return self._tnt_function("train", super().make_train_function, force)

    def make_test_function(self, force: bool = False) -> Any:
        """Make the function that `evaluate` calls for each step, anew if it is to. Local."""
        return self._tnt_function("test", super().make_test_function, force)

    def make_predict_function(self, force: bool = False) -> Any:
        """Make the function that `predict` calls for each step, anew if it is to. Local."""
        return self._tnt_function("predict", super().make_predict_function, force)

    def _tnt_function(self, kind: str, make: Callable[..., Any], force: bool) -> Any:
        attribute = f"{kind}_function"
        if get_size() == 1:
            return make(force)
        if force or getattr(self, attribute) is None:
            steps, owner = self._tnt_steps(kind, make), self._tnt_owner
            function: Any
            if kind == "predict":
                function = KerasPredictFunction(steps, owner, lambda: _made(self, kind, make))
            else:
                function = KerasFunction(steps, owner, lambda: self.steps_per_execution)
            setattr(self, attribute, function)
        return getattr(self, attribute)

    def _tnt_step(self, name: str) -> Any:
        if get_size() > 1 and not is_inside_step():
            require_call(name)
        is_on_whole_batches = get_size() == 1 or tf.executing_eagerly()
        return fused_batch_norm(is_on_whole_batches and self._tnt_owner.options.fuses_batch_norm)

    def _tnt_steps(self, kind: str, make: Callable[..., Any]) -> Steps:
        name = f"{kind}_step"
        step: Callable[[Any], Any] = lambda batch: getattr(self, name)(batch)  # noqa: E731
        if not has_keras_methods(self, f"make_{kind}_function"):
            function = _made(self, kind, make)
            step = _on_one_batch(function, is_list=kind == "predict")
        if self.run_eagerly:
            return WholeSteps(name, step, self._tnt_owner, "it runs eagerly")
        return PartitionedSteps(name, step, self._tnt_owner)


def _made(model: Any, kind: str, make: Callable[..., Any]) -> Any:
    """Return the function that the model's own class makes, and leave the model as it was."""
    attribute = f"{kind}_function"
    before = getattr(model, attribute)
    returned = make(True)
    made = getattr(model, attribute)
    setattr(model, attribute, before)
    return made if returned is None else returned


def _on_one_batch(function: Callable[[Any], Any], *, is_list: bool) -> Callable[[Any], Any]:
    """Return a function of a batch that calls one of an iterator over batches, or of a list."""

    def of_batch(batch: Any) -> Any:
        # A function that makes variables is traced twice, and asks the iterator each time.
        batches: Iterator[Any] | list[Any] = [batch] if is_list else itertools.repeat(batch)
        return function(batches)

    return of_batch
