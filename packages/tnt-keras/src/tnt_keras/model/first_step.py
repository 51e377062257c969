"""What a model needs before its steps can run on all ranks: variables, equal weights, an end."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_keras.callbacks.end_of_data import EndOfData
from tnt_keras.inputs.adapted import Feed
from tnt_keras.model.build import build_by_tracing
from tnt_keras.process.rank import get_size
from tnt_keras.step.model_steps import DistributedSteps
from tnt_keras.step.variables import synchronize


class PreparedSteps(DistributedSteps):
    """Mixin for a Keras model: its steps, and what comes before the first of them."""

    _tnt_built_steps: set[str]
    _tnt_synchronized: bool
    _tnt_num_fits: int

    def _check_compiled(self, method: str) -> None:
        if not self.compiled:
            raise ValueError(f"Call `compile()` before `{method}()`: the model has no loss yet.")

    def _prepare(self, step_name: str, feed: Feed) -> None:
        """Builds the model and gives all ranks the master's weights."""
        if get_size() > 1:
            self._build(step_name, feed.batch_spec)
            synchronize(self)
            self._tnt_synchronized = True

    def _end_of_data(
        self,
        training: Feed | None = None,
        testing: Feed | None = None,
        predicting: Feed | None = None,
    ) -> EndOfData | None:
        """What compares where the data of ranks end; None if that follows from the data."""
        compared = [
            feed is not None and feed.is_compared for feed in (training, testing, predicting)
        ]
        if not any(compared):
            return None
        exchange = self._tnt_communication.make_exchange()
        return EndOfData(
            exchange, training=compared[0], testing=compared[1], predicting=compared[2]
        )

    def _prepare_on_batch(self, step_name: str, batch: Any) -> None:
        if get_size() > 1:
            self._build(step_name, tf.nest.map_structure(_spec, batch))
            if not self._tnt_synchronized:
                synchronize(self)
                self._tnt_synchronized = True

    def _build(self, step_name: str, element_spec: Any) -> None:
        if step_name not in self._tnt_built_steps:
            build_by_tracing(self, step_name, element_spec)
            self._tnt_built_steps.add(step_name)


def _spec(value: Any) -> Any:
    return None if value is None else tf.type_spec_from_value(tf.convert_to_tensor(value))
