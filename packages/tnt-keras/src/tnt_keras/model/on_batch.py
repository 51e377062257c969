"""The `*_on_batch` methods on all ranks."""

from __future__ import annotations

from typing import Any

from tnt_keras.collectives.collective_call import collective_call
from tnt_keras.keras_hooks.class_swap import MixinBase
from tnt_keras.model.first_step import check_compiled, prepare_single_step


class SingleBatches(MixinBase):
    """Mixin for a Keras model: one step at a time, on a global batch that all ranks have."""

    @collective_call("train_on_batch")
    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Train on a global batch that all ranks have, as in Keras otherwise. Collective."""
        check_compiled(self, "train_on_batch")
        prepare_single_step(self, "train_step", (x, y))
        return super().train_on_batch(x, y, *args, **kwargs)

    @collective_call("test_on_batch")
    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Evaluate a global batch that all ranks have, as in Keras otherwise. Collective."""
        check_compiled(self, "test_on_batch")
        prepare_single_step(self, "test_step", (x, y))
        return super().test_on_batch(x, y, *args, **kwargs)

    @collective_call("predict_on_batch")
    def predict_on_batch(self, x: Any) -> Any:
        """Predict for a global batch that all ranks have, as in Keras otherwise. Collective."""
        prepare_single_step(self, "predict_step", (x,))
        return super().predict_on_batch(x)
