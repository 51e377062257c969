"""The `*_on_batch` methods on all ranks."""

from __future__ import annotations

from typing import Any

from tnt_keras.api.first_step import check_compiled, prepare_single_step
from tnt_keras.calls.collective_call import collective_call
from tnt_keras.keras_hooks.class_swap import MixinBase


class SingleBatches(MixinBase):
    """Mixin for a Keras model: one step at a time, on a global batch that all ranks have."""

    @collective_call("train_on_batch")
    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Train on a global batch that all ranks have, as in Keras otherwise. Collective.

        Args:
            x: As in Keras. There may be fewer samples than ranks.
            y: As in Keras.
            sample_weight: As in Keras.
            class_weight: As in Keras.
            return_dict: As in Keras.

        Returns:
            Loss and metrics of the global batch, equal on all ranks.
        """
        check_compiled(self, "train_on_batch")
        prepare_single_step(self)
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    @collective_call("test_on_batch")
    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Evaluate a global batch that all ranks have, as in Keras otherwise. Collective.

        Args:
            x: As for `train_on_batch`.
            y: As in Keras.
            sample_weight: As in Keras.
            return_dict: As in Keras.

        Returns:
            Loss and metrics of the global batch, equal on all ranks.
        """
        check_compiled(self, "test_on_batch")
        prepare_single_step(self)
        return super().test_on_batch(x, y, sample_weight, return_dict)

    @collective_call("predict_on_batch")
    def predict_on_batch(self, x: Any) -> Any:
        """Predict for a global batch that all ranks have, as in Keras otherwise. Collective.

        Args:
            x: As for `train_on_batch`.

        Returns:
            The predictions for the global batch in its order, on all ranks.
        """
        prepare_single_step(self)
        return super().predict_on_batch(x)
