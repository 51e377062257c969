"""Plain Keras goes on from the end of its last epoch with the same samples and bits."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import cases

from models.shared.distribution import Distribution, ParallelMethods
from models.shared.resuming import iterators_of_epochs, prepare_to_resume

# Keras 3 hands variables to numpy in a way that numpy 2 warns about.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
SERIAL = Distribution(ParallelMethods.NONE)
SETTINGS = {"batch_size": 3, "seed": 1}


class Stop(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt


def make_data():
    x = np.arange(10, dtype=np.float32)[:, None]
    return tf.data.Dataset.from_tensor_slices((x / 10, x)).shuffle(10, seed=3).batch(3)


def make_model(width=1, dtype="float32"):
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input((1,)),
        keras.layers.Dense(width, dtype=dtype),
        keras.layers.Dropout(0.5, dtype=dtype),
        keras.layers.Dense(1, dtype=dtype),
    ]
    model = keras.Sequential(layers)
    model.dtype_policy = keras.DTypePolicy(dtype)  # decides on the scaling of the loss
    model.compile(keras.optimizers.Adam(0.1), "mse")
    return model


def resume_from(
    folder, model=None, data=None, *, distribution=SERIAL, settings=SETTINGS, resume=True
):
    model, data = model or make_model(), data or make_data()
    return prepare_to_resume(distribution, model, data, folder, settings=settings, resume=resume)


def train(folder=None, *, resume=False, stop=None, epochs=4, dtype="float32"):
    model, data = make_model(dtype=dtype), make_data()
    prepared = resume_from(folder, model, data, resume=resume)
    callbacks = [*prepared.callbacks, *([] if stop is None else [Stop(stop)])]
    history = model.fit(
        data,
        epochs=epochs,
        initial_epoch=prepared.initial_epoch,
        callbacks=callbacks,
        verbose=0,
        shuffle=False,
    )
    prepared.discard_backup(history, epochs)
    return history, model.get_weights()


@cases("dtype", ["mixed_float16"], thorough=["float32"])
def test_a_training_that_was_stopped_ends_with_the_same_bits_and_history(dtype, tmp_path):
    expected_history, expected_weights = train(dtype=dtype)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "backup", stop=3, dtype=dtype)
    history, weights = train(tmp_path / "backup", resume=True, dtype=dtype)
    assert history.history == expected_history.history
    assert history.epoch == [0, 1, 2, 3]
    for actual, expected in zip(weights, expected_weights, strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert not (tmp_path / "backup").exists()


def test_a_backup_of_more_epochs_than_asked_for_is_kept(tmp_path, caplog):
    folder = tmp_path / "backup"
    with pytest.raises(KeyboardInterrupt):
        train(folder, stop=3)
    history, _ = train(folder, resume=True, epochs=2)
    assert history.epoch == [0, 1, 2]
    assert "from epoch 3, and the training is to end after epoch 2" in caplog.text
    history, _ = train(folder, resume=True)
    assert history.epoch == [0, 1, 2, 3]


def test_a_backup_is_neither_overwritten_nor_read_into_another_model(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, stop=1)
    with pytest.raises(SystemExit, match="go on with --resume, or remove"):
        resume_from(tmp_path, resume=False)
    other = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    other.compile("sgd", "mse")
    with pytest.raises(ValueError, match="is of another model"):
        resume_from(tmp_path, other)
    with pytest.raises(ValueError, match=r"is \(1, 1\) there and \(1, 2\) in the model"):
        resume_from(tmp_path, make_model(width=2))
    single = make_data().unbatch().batch(1).apply(tf.data.experimental.assert_cardinality(10))
    with pytest.raises(ValueError, match="4 steps in an epoch, and now there are 10"):
        resume_from(tmp_path, data=single)


def test_other_flags_than_those_of_the_backup_are_refused(tmp_path):
    folder = tmp_path / "run/backup"
    with pytest.raises(KeyboardInterrupt):
        train(folder, stop=1)
    for changed in ({"seed": 2}, {"seed": 2, "batch_size": None}):
        with pytest.raises(SystemExit, match=r"--seed was 1 and is 2.*as it began, or name"):
            resume_from(folder, settings=SETTINGS | changed)
    assert resume_from(folder).initial_epoch == 1
    (folder / "backup.npz").write_bytes((folder / "backup.npz").read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"backup.npz is damaged: copy it"):
        resume_from(folder)


def test_a_backup_of_the_other_kind_is_refused_instead_of_beginning_anew(tmp_path):
    ranks = Distribution(ParallelMethods.TNT)
    files = {ranks: "backup.npz", SERIAL: "latest.tnt_backup"}
    for distribution, name in files.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).touch()
        with pytest.raises(SystemExit, match=r"cannot read.*another --model_dir"):
            resume_from(folder, distribution=distribution)
    killed_in_its_first_backup = tmp_path / "part"
    killed_in_its_first_backup.mkdir()
    (killed_in_its_first_backup / "backup.part").touch()
    assert resume_from(killed_in_its_first_backup).initial_epoch == 0


def test_iterators_that_fit_makes_are_counted():
    counts = [iterators_of_epochs(number) for number in range(4)]
    assert counts[0] == 0
    assert counts == sorted(set(counts))


def test_without_tarantella_there_is_one_rank_and_nothing_is_wrapped():
    callback, model = keras.callbacks.Callback(), make_model()
    assert (SERIAL.rank, SERIAL.size, SERIAL.is_master) == (0, 1, True)
    assert SERIAL.wrap(model) is model
    assert SERIAL.on_master(callback) is callback
    assert SERIAL.from_master(lambda: 5) == 5
    assert SERIAL.counters() is None
