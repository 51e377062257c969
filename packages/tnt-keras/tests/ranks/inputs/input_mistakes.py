"""Inputs with which ranks cannot go on together."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
from classifiers import classifier, samples, weights_of
from forms_of_samples import STEPS, Batches

import tnt_data
import tnt_keras
from tnt_keras.inputs import distribute_python
from tnt_keras.inputs.python_batches import NumberedPyDataset
from tnt_keras.keras_hooks.patch import replaced


def error_of(case: str) -> tuple[str, str]:
    """Makes a mistake after which ranks cannot go on together."""
    gc.freeze()  # what others have left: it need not be looked through below
    try:
        MISTAKES[case]()
        result = ("", "no error")
    except Exception as error:
        result = (type(error).__name__, str(error))
    # Threads of tf.data that call Python must end before the interpreter does.
    gc.collect()
    return result


def _more_batches_on_rank_0(num_batches: int) -> Any:
    x, y = samples(5)
    extra = 1 - tnt_keras.get_rank()
    return [(x, y)] * (num_batches + extra)


def _unequal_own_datasets() -> None:
    x, y = samples(20 - 5 * tnt_keras.get_rank())
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
    classifier(True).fit(data, verbose=0, tnt_distribute_dataset=False)


def _unequal_own_datasets_of_unknown_length() -> None:
    x, y = samples(20 - 5 * tnt_keras.get_rank())
    data = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda x, y: True).batch(5)
    classifier(True).fit(data, verbose=0, tnt_distribute_dataset=False)


def _unequal_evaluation() -> None:
    batches = (batch for batch in _more_batches_on_rank_0(2))
    classifier(True).evaluate(batches, verbose=0)


def _part_of_arrays(**more: Any) -> None:
    x, y = (array[tnt_keras.get_rank() :: tnt_keras.get_size()] for array in samples(20))
    classifier(True).fit(x, y, batch_size=5, verbose=0, **more)


def _other_arrays_for_validation() -> None:
    other = samples(20, seed=tnt_keras.get_rank())
    classifier(True).fit(*samples(20), validation_data=other, verbose=0)


def _other_weights() -> None:
    x, y = samples(20)
    classifier(True).fit(x, y, sample_weight=weights_of(20) + tnt_keras.get_rank(), verbose=0)


def error_of_batch(method: str) -> tuple[str, str]:
    """Gives a method of single batches every other sample, when the model has run before."""
    model = classifier(True)
    x, y = samples(20)
    model.train_on_batch(x, y)
    own = slice(tnt_keras.get_rank(), None, tnt_keras.get_size())
    targets = () if method == "predict_on_batch" else (y[own],)
    try:
        getattr(model, method)(x[own], *targets)
    except Exception as error:
        return type(error).__name__, str(error)
    return "", "no error"


def _other_arrays_of_a_dataset() -> None:
    x, y = samples(20, seed=tnt_keras.get_rank())
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
    classifier(True).fit(data, verbose=0)


def _batches_of_this_rank() -> Iterator[Any]:
    x, y = samples(20, seed=tnt_keras.get_rank())
    yield from ((x[i : i + 5], y[i : i + 5]) for i in range(0, 20, 5))


def _other_batches_of_a_py_dataset() -> None:
    class OfRank(Batches):
        def _rows(self, rows: range) -> tuple[Any, ...]:
            x, *others = super()._rows(rows)
            return x + tnt_keras.get_rank(), *others

    classifier(True).fit(OfRank(), shuffle=False, verbose=0)


def losses_of_other_batches_on_purpose() -> list[float]:
    """Losses of a training whose batches differ between ranks."""
    model = classifier(True)
    return model.fit(_batches_of_this_rank(), verbose=0, verify_inputs=False).history["loss"]


def _other_order_in_the_second_epoch() -> None:
    x, y = samples(20)
    swaps = tf.Variable(0, dtype=tf.int64)

    def number(i: Any) -> Any:
        return tf.data.Dataset.from_tensors(tf.where((swaps > 0) & (i < 2), 1 - i, i))

    data = tf.data.Dataset.range(20).flat_map(number)
    data = data.map(lambda i: (tf.gather(x, i), tf.gather(y, i)), num_parallel_calls=2).batch(5)
    swap = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: swaps.assign(epoch * tnt_keras.get_rank())
    )
    classifier(True).fit(data, epochs=2, verbose=0, verify_inputs=True, callbacks=[swap])


def _look_at_a_shuffled_dataset_on_rank_1() -> None:
    """Each pass moves the order on, also one that is not for training."""
    x, y = samples(20)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(20, seed=5).batch(5)
    if tnt_keras.get_rank() == 1:
        next(iter(data))
    classifier(True).fit(data, verbose=0, verify_inputs=True)


def _other_seed_on_rank_1() -> None:
    x, y = samples(20)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(20, seed=tnt_keras.get_rank())
    classifier(True).fit(data.batch(5), verbose=0)


def _shared_twice() -> None:
    data = tf.data.Dataset.from_tensor_slices(samples(20))
    own = data.shard(tnt_keras.get_size(), tnt_keras.get_rank())
    classifier(True).fit(own.batch(5), verbose=0)


def _already_shared() -> None:
    data = tf.data.Dataset.from_tensor_slices(samples(20)).batch(5)
    part = tnt_data.distribute(data, tnt_keras.get_rank(), tnt_keras.get_size())
    classifier(True).fit(part, verbose=0)


def _other_length_of_a_py_dataset() -> None:
    class Longer(Batches):
        def __len__(self) -> int:
            return STEPS - tnt_keras.get_rank()

    classifier(True).fit(Longer(), shuffle=False, verbose=0)


def _other_order_of_batches_on_rank_1() -> None:
    """As Keras may hand them out if workers make more batches than an epoch has steps."""

    class Reordered(NumberedPyDataset):
        def __getitem__(self, index: int) -> Any:
            swap = tnt_keras.get_rank() == 1 and index < 2
            return super().__getitem__(1 - index if swap else index)

    with replaced(distribute_python, "NumberedPyDataset", Reordered):
        classifier(True).fit(Batches(), shuffle=False, verbose=0)


def _generated(sizes: list[int], width: int = 10) -> Any:
    def batches() -> Iterator[Any]:
        for size in sizes:
            x, y = samples(size)
            yield x[:, :width], y

    spec = (tf.TensorSpec([None, None]), tf.TensorSpec([None], tf.int32))
    return tf.data.Dataset.from_generator(batches, output_signature=spec)


def _other_sizes_of_generated_batches() -> None:
    sizes = [6, 6, 6 - tnt_keras.get_rank(), 6]
    classifier(True).fit(_generated(sizes), verbose=0)


def _other_widths_of_generated_batches() -> None:
    keras.utils.set_random_seed(1)
    model = tnt_keras.Model(keras.Sequential([keras.layers.GlobalAveragePooling1D()]))
    model.compile("sgd", "mse")
    data = _generated([6, 6], 10 - tnt_keras.get_rank()).map(lambda x, y: (x[..., None], y))
    model.evaluate(data, verbose=0)


def _own_data_with_micro_batch_size() -> None:
    data = tf.data.Dataset.from_tensor_slices(samples(20)).batch(5)
    classifier(True).fit(data, tnt_distribute_dataset=False, tnt_micro_batch_size=5)


MISTAKES: dict[str, Callable[[], None]] = {
    "unequal own datasets": _unequal_own_datasets,
    "unequal own datasets of unknown length": _unequal_own_datasets_of_unknown_length,
    "unequal evaluation": _unequal_evaluation,
    "other batches of a generator": lambda: classifier(True).fit(
        _batches_of_this_rank(), verbose=0
    ),
    "other batches of a PyDataset": _other_batches_of_a_py_dataset,
    "other sizes of generated batches": _other_sizes_of_generated_batches,
    "other widths of generated batches": _other_widths_of_generated_batches,
    "other order in the second epoch": _other_order_in_the_second_epoch,
    "look at a shuffled dataset": _look_at_a_shuffled_dataset_on_rank_1,
    "part of arrays": _part_of_arrays,
    "part of arrays, all of it compared": lambda: _part_of_arrays(verify_inputs=True),
    "other arrays for validation": _other_arrays_for_validation,
    "other weights": _other_weights,
    "other arrays of a dataset": _other_arrays_of_a_dataset,
    "rank 0 and own data": lambda: classifier(True).fit(
        Batches(), tnt_read="rank 0", tnt_distribute_dataset=False
    ),
    "read by rank 1": lambda: classifier(True).fit(Batches(), tnt_read="rank 1"),
    "other seed on rank 1": _other_seed_on_rank_1,
    "shared twice": _shared_twice,
    "already shared": _already_shared,
    "other length of a PyDataset": _other_length_of_a_py_dataset,
    "other order of batches": _other_order_of_batches_on_rank_1,
    "own data with micro-batch size": _own_data_with_micro_batch_size,
}
