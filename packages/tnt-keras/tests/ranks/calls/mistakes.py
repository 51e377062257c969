"""Mistakes that users make; each is one run whose error is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from behaviours import batches_of
from classifiers import classifier, samples

import tnt_keras


def error_of(name: str) -> tuple[str, str]:
    """Makes one mistake and returns the type and text of the error."""
    try:
        MISTAKES[name]()
    except Exception as error:  # the kind is what the test looks at
        return type(error).__name__, str(error)
    return "", "no error"


def _not_compiled() -> None:
    tnt_keras.Model(keras.Sequential([keras.Input((10,)), keras.layers.Dense(3)])).fit(batches_of())


def _targets_with_dataset() -> None:
    classifier(True).fit(batches_of(), samples()[1])


def _batch_size_with_dataset() -> None:
    classifier(True).evaluate(batches_of(), batch_size=5)


def _unbatched() -> None:
    classifier(True).fit(batches_of(None))


def _contradicting_micro_batch() -> None:
    classifier(True).fit(batches_of(5), tnt_micro_batch_size=5)


def _generator() -> None:
    classifier(True).fit(iter([samples()]))


def _not_a_model() -> None:
    tnt_keras.Model(batches_of())


def _checkpoint_of_the_master() -> None:
    checkpoints = [keras.callbacks.ModelCheckpoint("never.keras")]
    callbacks = checkpoints if tnt_keras.is_master_rank() else []
    classifier(True).fit(batches_of(), callbacks=callbacks, verbose=0)


def _different_models() -> None:
    units = 3 + tnt_keras.get_rank()
    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(units, name="head")])
    model = tnt_keras.Model(model)
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(batches_of(), verbose=0)


def _fit_with(optimizer: keras.optimizers.Optimizer) -> None:
    model = tnt_keras.Model(keras.Sequential([keras.Input((10,)), keras.layers.Dense(3)]))
    model.compile(optimizer, "sparse_categorical_crossentropy")
    model.fit(batches_of(), verbose=0)


def _schedule_of_this_rank() -> None:
    rate = 0.125 * (1 + tnt_keras.get_rank())
    schedule = keras.optimizers.schedules.ExponentialDecay(rate, 5, 0.5)
    _fit_with(keras.optimizers.Adam(schedule))


def _clipping_of_this_rank() -> None:
    _fit_with(keras.optimizers.SGD(clipnorm=1.0 + tnt_keras.get_rank()))


def _optimizer_of_this_rank() -> None:
    _fit_with([keras.optimizers.SGD, keras.optimizers.Adam][tnt_keras.get_rank()]())


def _custom_loop() -> None:
    model = classifier(True)
    model.optimizer.apply(
        [np.ones_like(v) for v in model.trainable_variables], model.trainable_variables
    )


def _drifting_rank() -> None:
    class Drift(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if tnt_keras.get_rank() == 1:
                bias = self.model.layers[-1].bias
                bias.assign(bias + 1e-6)

    classifier(True).fit(batches_of(), epochs=2, verbose=0, callbacks=[Drift()])


def _different_data() -> None:
    size = 22 - 2 * tnt_keras.get_rank()  # 5 and 4 batches of 5
    data = tf.data.Dataset.from_tensor_slices(samples(size)).batch(5)
    classifier(True).fit(data, verbose=0)


def _different_batches() -> None:
    def batches() -> Iterator[Any]:
        for _ in range(3):
            yield samples(4 + tnt_keras.get_rank())

    signature = (tf.TensorSpec((None, 10)), tf.TensorSpec((None,), tf.int32))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    classifier(True).fit(data, verbose=0)


def _different_arguments(method: str, name: str) -> None:
    x, y = samples()
    arguments = {"y": y, "batch_size": 5, name: 2 + tnt_keras.get_rank()}
    if method == "predict":
        del arguments["y"]
    getattr(classifier(True), method)(x, verbose=0, **arguments)


def _learning_rate_of_one_rank() -> None:
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 0.5)
    callbacks = [schedule] if tnt_keras.is_master_rank() else []
    classifier(True).fit(batches_of(), callbacks=callbacks, verbose=0)


def _metric_of_one_rank() -> None:
    metrics = ["accuracy"] if tnt_keras.is_master_rank() else []
    model = tnt_keras.Model(classifier(False, metrics=metrics))
    model.fit(batches_of(), verbose=0)


def _fit_unlike(
    of_layer: Callable[[int], dict[str, Any]] = lambda rank: {},
    *,
    loss: Callable[[int], Any] = lambda rank: "mse",
    compiled: Callable[[int], dict[str, Any]] = lambda rank: {},
    given: Callable[[int], dict[str, Any]] = lambda rank: {},
) -> None:
    """Train a model of which something is another one on rank 1."""
    rank = tnt_keras.get_rank()
    layers = [keras.layers.Dense(4, **of_layer(rank)), keras.layers.Dense(1)]
    model = tnt_keras.Model(keras.Sequential([keras.Input((10,)), *layers]))
    model.compile("sgd", loss(rank), **compiled(rank))
    model.fit(*samples(), batch_size=6, verbose=0, **given(rank))


def _compiled_anew_by_one_rank() -> None:
    model = classifier(True)
    model.fit(batches_of(), verbose=0)
    if tnt_keras.get_rank() == 1:
        model.layers[0].trainable = False
        model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(batches_of(), verbose=0)


def _other_function_of_the_user() -> None:
    """A function has no settings: what ranks have traced differs."""
    functions = [lambda x: x, lambda x: 2 * x]
    activation = functions[tnt_keras.get_rank()]
    layers = [keras.layers.Dense(4, activation=activation), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((10,)), *layers])
    model = tnt_keras.Model(model)
    model.compile("sgd", "mse")
    model.fit(*samples(), batch_size=6, verbose=0)


def _other_number_of_samples_to_predict() -> None:
    x, _ = samples(23 - 3 * tnt_keras.get_rank())
    classifier(True).predict(x, batch_size=8, verbose=0)


MISTAKES = {
    "metric of one rank": _metric_of_one_rank,
    "other steps per epoch": lambda: _different_arguments("fit", "steps_per_epoch"),
    "other batch size": lambda: _different_arguments("fit", "batch_size"),
    "other steps": lambda: _different_arguments("evaluate", "steps"),
    "other batches to predict": lambda: _different_arguments("predict", "batch_size"),
    "learning rate of one rank": _learning_rate_of_one_rank,
    "not compiled": _not_compiled,
    "targets with dataset": _targets_with_dataset,
    "batch size with dataset": _batch_size_with_dataset,
    "unbatched": _unbatched,
    "contradicting micro-batch": _contradicting_micro_batch,
    "generator": _generator,
    "not a model": _not_a_model,
    "checkpoint of the master": _checkpoint_of_the_master,
    "other schedule": _schedule_of_this_rank,
    "other clipping": _clipping_of_this_rank,
    "other optimizer": _optimizer_of_this_rank,
    "different models": _different_models,
    "other activation": lambda: _fit_unlike(lambda rank: {"activation": ["relu", "tanh"][rank]}),
    "other policy": lambda: _fit_unlike(
        lambda rank: {"dtype": ["float32", "mixed_bfloat16"][rank]}
    ),
    "other parameter of the loss": lambda: _fit_unlike(
        loss=lambda rank: keras.losses.MeanSquaredError(reduction=["sum", "mean"][rank])
    ),
    "other execution": lambda: _fit_unlike(compiled=lambda rank: {"steps_per_execution": 1 + rank}),
    "eager steps of one rank": lambda: _fit_unlike(compiled=lambda rank: {"run_eagerly": rank > 0}),
    "validation of one rank": lambda: _fit_unlike(
        given=lambda rank: {"validation_data": samples() if rank else None}
    ),
    "unknown argument of one rank": lambda: _fit_unlike(
        given=lambda rank: {"nonsense": 1} if rank else {}
    ),
    "no callback on one rank": lambda: _fit_unlike(
        given=lambda rank: {"callbacks": ["x"] if rank else None}
    ),
    "compiled anew by one rank": _compiled_anew_by_one_rank,
    "other function of the user": _other_function_of_the_user,
    "other number of samples to predict": _other_number_of_samples_to_predict,
    "custom loop": _custom_loop,
    "drifting rank": _drifting_rank,
    "different data": _different_data,
}


def error_in_world_of_its_own() -> tuple[str, str]:
    """An error after which ranks cannot go on together."""
    try:
        _different_batches()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", "no error"
