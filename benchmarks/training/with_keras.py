"""Training with Keras: plain, distributed by Tarantella, or by a strategy of TensorFlow."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks.keras_models import MODELS, Sizes, make_samples
from benchmarks.training.steady import Readings, SteadySteps, read_clocks


class Training:
    """A model that is trained on one and the same random batch."""

    def __init__(
        self,
        keras: Any,
        model: Any,
        samples: tuple[Any, Any],
        versions: dict[str, str],
        read: Callable[[], Readings] = read_clocks,
    ) -> None:
        self._keras = keras
        self._model = model
        self._samples = samples
        self._read = read
        self.versions = {**versions, "tensorflow": tf.__version__, "keras": keras.__version__}
        self.num_parameters = int(model.count_params())

    def train(self, num_steps: int) -> dict[str, float]:
        """What a step costs, in `num_steps` of them after one more. Collective, if distributed."""
        data = tf.data.Dataset.from_tensor_slices(self._samples).batch(len(self._samples[1]))
        steps = SteadySteps(self._read)
        clock = _clock(self._keras, steps)
        self._model.fit(data.repeat(num_steps + 1).prefetch(2), verbose=0, callbacks=[clock])
        return steps.per_step()


def _clock(keras: Any, steps: SteadySteps) -> Any:
    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            steps.end_step()

    return Clock()


def open_training(kind: str, name: str, sizes: Sizes, batch_size: int) -> Training:
    """Build a model with random weights. Collective, if distributed."""
    return KINDS[kind](name, sizes, batch_size)


def open_plain(module: str, name: str, sizes: Sizes, batch_size: int) -> Training:
    keras = importlib.import_module(module)
    keras.utils.set_random_seed(1)
    model = MODELS[name](keras, sizes)
    return Training(keras, model, make_samples(name, sizes, batch_size), {})


def open_tnt(fuses: bool, name: str, sizes: Sizes, batch_size: int) -> Training:
    import keras

    import tarantella as tnt
    import tnt_comm

    def read() -> Readings:
        counters = tnt_comm.counters()
        return {
            **read_clocks(),
            "communication_s": counters.communication_s,
            "exposed_s": counters.exposed_s,
        }

    keras.utils.set_random_seed(1)
    model = tnt.Model(MODELS[name](keras, sizes), fused_batch_norm=fuses)
    samples = make_samples(name, sizes, batch_size * tnt.get_size())
    return Training(keras, model, samples, {"tarantella": tnt.__version__}, read)


def open_mwms(name: str, sizes: Sizes, batch_size: int) -> Training:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything is computed
    import tf_keras as keras

    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = MODELS[name](keras, sizes)
    samples = make_samples(name, sizes, batch_size * strategy.num_replicas_in_sync)
    return Training(keras, model, samples, {})


KINDS: dict[str, Callable[[str, Sizes, int], Training]] = {
    "plain": lambda *arguments: open_plain("keras", *arguments),
    "tnt": lambda *arguments: open_tnt(True, *arguments),
    "tnt_unfused": lambda *arguments: open_tnt(False, *arguments),
    "tf_keras": lambda *arguments: open_plain("tf_keras", *arguments),
    "mwms": open_mwms,
}
