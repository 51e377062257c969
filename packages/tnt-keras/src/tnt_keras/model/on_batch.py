"""The `*_on_batch` methods on all ranks."""

from __future__ import annotations

from typing import Any

from tnt_keras.collectives.collective_call import collective_call
from tnt_keras.model.first_step import PreparedSteps


class SingleBatches(PreparedSteps):
    """Mixin for a Keras model: one step at a time, on a global batch that all ranks have."""

    @collective_call("train_on_batch")
    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.train_on_batch`, for a global batch equal on all ranks. Collective."""
        self._check_compiled("train_on_batch")
        self._prepare_on_batch("train_step", (x, y))
        return super().train_on_batch(x, y, *args, **kwargs)

    @collective_call("test_on_batch")
    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.test_on_batch`, for a global batch equal on all ranks. Collective."""
        self._check_compiled("test_on_batch")
        self._prepare_on_batch("test_step", (x, y))
        return super().test_on_batch(x, y, *args, **kwargs)

    @collective_call("predict_on_batch")
    def predict_on_batch(self, x: Any) -> Any:
        """As `keras.Model.predict_on_batch`, for a global batch equal on all ranks. Collective."""
        self._prepare_on_batch("predict_step", (x,))
        return super().predict_on_batch(x)
