"""`evaluate`, `predict` and the `*_on_batch` methods on all ranks."""

from __future__ import annotations

from typing import Any

import keras

from tnt_keras.api.first_step import (
    check_compiled,
    prepare_single_step,
    prepare_steps,
    split_arguments,
    switches,
)
from tnt_keras.callbacks.select import select_callbacks
from tnt_keras.calls.agree import compared_at_once
from tnt_keras.calls.together import collective_call
from tnt_keras.inputs.arguments import EVALUATION, input_of_call, is_left_to_keras
from tnt_keras.inputs.compare_ranks import require_same_arguments, require_same_batch
from tnt_keras.inputs.distribute import callbacks_for_data, distribute_input
from tnt_keras.keras_hooks.patch import MixinBase, signature_of
from tnt_keras.process.rank import verbosity


class Evaluating(MixinBase):
    """Mixin for a Keras model: evaluates and predicts on all ranks."""

    @collective_call("evaluate", compares=True)
    @signature_of(
        keras.Model.evaluate,
        tnt_micro_batch_size=None,
        tnt_distribute_dataset=True,
        tnt_read=None,
        verify_inputs=None,
    )
    def evaluate(self, *args: Any, **kwargs: Any) -> Any:  # noqa: D417
        """Evaluate on all ranks together, otherwise as `keras.Model.evaluate`. Collective.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            batch_size: As for `fit`.
            verbose: As for `fit`.
            sample_weight: As for `fit`.
            steps: As in Keras.
            callbacks: As for `fit`.
            return_dict: As in Keras.
            tnt_micro_batch_size: As for `fit`.
            tnt_distribute_dataset: As for `fit`.
            tnt_read: As for `fit`.
            verify_inputs: As for `fit`.
            **kwargs: What Keras passes on when `fit` validates.

        Returns:
            Loss and metrics over all samples, equal on all ranks.

        Raises:
            ValueError: As `fit` does.
        """
        if any(name.startswith("_") for name in kwargs):  # `fit` validates, with data of its own
            return super().evaluate(*args, **kwargs)
        with compared_at_once("begin"):
            given, of_keras = split_arguments(Evaluating.evaluate, self, *args, **kwargs)
            check_compiled(self, "evaluate")
            replacements = _replacements(self, "test_step", given)
        return super().evaluate(**of_keras | replacements)

    @collective_call("predict", compares=True)
    @signature_of(
        keras.Model.predict,
        tnt_micro_batch_size=None,
        tnt_distribute_dataset=True,
        tnt_read=None,
        verify_inputs=None,
    )
    def predict(self, *args: Any, **kwargs: Any) -> Any:  # noqa: D417
        """Predict on all ranks together, otherwise as `keras.Model.predict`. Collective.

        Args:
            x: As for `fit`.
            batch_size: As for `fit`.
            verbose: As for `fit`.
            steps: As in Keras.
            callbacks: As for `fit`.
            tnt_micro_batch_size: As for `fit`.
            tnt_distribute_dataset: False if each rank passes its own samples.
            tnt_read: As for `fit`.
            verify_inputs: As for `fit`.

        Returns:
            The predictions for all samples in their order, on all ranks; if each rank has its own
            samples, the predictions for those.

        Raises:
            ValueError: As `fit` does.
        """
        with compared_at_once("begin"):
            given, of_keras = split_arguments(Evaluating.predict, self, *args, **kwargs)
            replacements = _replacements(self, "predict_step", given)
        return super().predict(**of_keras | replacements)


def _replacements(model: Any, step_name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return what Keras' method is given on this rank instead of the user's. Collective."""
    is_prediction = step_name == "predict_step"
    require_same_arguments(given | switches(model))
    own = input_of_call(given, EVALUATION, needs_equal_steps=not is_prediction)
    if is_left_to_keras(own):
        return {}
    part = distribute_input(own)
    prepare_steps(model)
    first = callbacks_for_data(
        model._tnt_owner.data_check, **{"predicting" if is_prediction else "testing": part}
    )
    return {
        "x": part.data,
        **({} if is_prediction else {"y": None, "sample_weight": None}),
        "batch_size": None,
        "verbose": verbosity(given["verbose"]),
        "callbacks": select_callbacks(
            given["callbacks"],
            training=False,
            first=first,
            lockstep=own.distribute or part.is_compared,
        ),
    }


class SingleBatches(MixinBase):
    """Mixin for a Keras model: one step at a time, on a global batch that all ranks have."""

    @collective_call("train_on_batch", compares=True)
    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Train on a global batch that all ranks have, otherwise as in Keras. Collective.

        Args:
            x: As in Keras. There may be fewer samples than ranks.
            y: As in Keras.
            sample_weight: As in Keras.
            class_weight: As in Keras.
            return_dict: As in Keras.

        Returns:
            Loss and metrics of the global batch, equal on all ranks.
        """
        _begin_step(
            self,
            "train_on_batch",
            x=x,
            y=y,
            sample_weight=sample_weight,
            class_weight=repr(class_weight).encode(),
        )
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    @collective_call("test_on_batch", compares=True)
    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Evaluate a global batch that all ranks have, otherwise as in Keras. Collective.

        Args:
            x: As for `train_on_batch`.
            y: As in Keras.
            sample_weight: As in Keras.
            return_dict: As in Keras.

        Returns:
            Loss and metrics of the global batch, equal on all ranks.
        """
        _begin_step(self, "test_on_batch", x=x, y=y, sample_weight=sample_weight)
        return super().test_on_batch(x, y, sample_weight, return_dict)

    @collective_call("predict_on_batch", compares=True)
    def predict_on_batch(self, x: Any) -> Any:
        """Predict for a global batch that all ranks have, otherwise as in Keras. Collective.

        Args:
            x: As for `train_on_batch`.

        Returns:
            The predictions for the global batch in its order, on all ranks.
        """
        _begin_step(self, "predict_on_batch", x=x)
        return super().predict_on_batch(x)


def _begin_step(model: Any, method: str, **components: Any) -> None:
    """Compare a batch that all ranks are given, and give them equal weights. Collective."""
    with compared_at_once("begin"):
        if method != "predict_on_batch":
            check_compiled(model, method)
        require_same_batch(**components)
        prepare_single_step(model)
