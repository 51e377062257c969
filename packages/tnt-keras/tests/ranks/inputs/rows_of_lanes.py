"""What ranks with several lanes are given of every kind of input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_keras as tnt
from tnt_keras.inputs.arguments import OWN_LOOP, TRAINING, InputArguments
from tnt_keras.inputs.distribute import distribute_input
from tnt_keras.step.batch import unmarked

NUM_SAMPLES, BATCH_SIZE = 22, 10  # the last batch has no sample for the last two of 4 lanes
Make = Callable[[], InputArguments]


class Rows(keras.utils.PyDataset):
    """Batches of which single rows can be made."""

    def __len__(self) -> int:
        return -(-NUM_SAMPLES // BATCH_SIZE)

    def __getitem__(self, index: int) -> Any:
        return self.get_rows(index, slice(None))

    def num_samples(self, index: int) -> int:
        return min(BATCH_SIZE, NUM_SAMPLES - index * BATCH_SIZE)

    def get_rows(self, index: int, rows: slice) -> Any:
        begin = index * BATCH_SIZE
        x = np.arange(begin, begin + self.num_samples(index), dtype="float32")[rows]
        return x, -x


class Whole(keras.utils.PyDataset):
    """The same batches, whole."""

    def __len__(self) -> int:
        return len(Rows())

    def __getitem__(self, index: int) -> Any:
        return Rows()[index]


def _batches() -> Iterator[Any]:
    yield from (Rows()[index] for index in range(len(Rows())))


def _samples() -> tf.data.Dataset:
    numbers = tf.data.Dataset.range(NUM_SAMPLES).map(lambda x: tf.cast(x, tf.float32))
    return numbers.map(lambda x: (x, -x))


def _dataset() -> tf.data.Dataset:
    return _samples().batch(BATCH_SIZE)


def _arrays(**options: Any) -> InputArguments:
    x = np.arange(NUM_SAMPLES, dtype="float32")
    return InputArguments(x, -x, batch_size=BATCH_SIZE, **options)


INPUTS: dict[str, Make] = {
    "dataset": lambda: InputArguments(_dataset()),
    "dataset of a loop": lambda: InputArguments(_dataset(), keywords=OWN_LOOP),
    "compared dataset": lambda: InputArguments(_dataset(), verify=True),
    "dataset that rank 0 reads": lambda: InputArguments(_dataset(), read="rank 0"),
    "unbatched dataset": lambda: InputArguments(_samples(), micro_batch_size=5),
    "arrays": _arrays,
    "PyDataset": lambda: InputArguments(Whole()),
    "PyDataset of rows": lambda: InputArguments(Rows()),
    "generator": lambda: InputArguments(_batches(), keywords=TRAINING),
}


def rows_of_rank() -> dict[str, list[tuple[list[float], int, int]]]:
    """Return the rows of this rank's steps, with the numbers of local and global samples."""
    return {name: [_seen(part) for part in _parts(make())] for name, make in INPUTS.items()}


def rows_of_shuffled_arrays() -> list[list[float]]:
    """Return the rows of this rank's steps, in the order that Keras draws from a seed."""
    keras.utils.set_random_seed(7)
    parts = distribute_input(_arrays(), shuffle=True).batches
    return [np.ravel(unmarked(part)[0]).tolist() for part in parts]


def rows_of_a_loop() -> list[list[float]]:
    """Return what a loop over a distributed dataset is given."""
    return [x.numpy().tolist() for x, _ in tnt.data.distribute(_dataset())]


def _parts(given: InputArguments) -> Any:
    data = distribute_input(given).data
    if isinstance(data, tf.data.Dataset):
        return data
    batches = data.get_tf_dataset()
    data.on_epoch_begin()
    return batches


def _seen(part: Any) -> tuple[list[float], int, int]:
    x, y = part.data
    np.testing.assert_array_equal(np.ravel(y), -np.ravel(x))
    return np.ravel(x).tolist(), int(part.num_local), int(part.num_global)
