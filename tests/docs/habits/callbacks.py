"""Callbacks, logs, and what is shown."""

import contextlib
import io
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import tarantella as tnt
from habits.row import (
    BATCH_SIZE,
    assert_same,
    compiled,
    dataset,
    distributed,
    habit,
    plain_model,
    run,
    samples,
    serial,
    trained,
    value,
)


@habit("BroadcastGlobalVariablesCallback(0)")
def ranks_begin_with_the_weights_of_the_master(code):
    model = distributed()
    if not tnt.is_master_rank():
        model.set_weights([weight + 1.0 for weight in model.get_weights()])
    assert_same(trained(model), serial())


@habit("MetricAverageCallback()")
def logs_are_those_of_the_serial_run(code):
    def metrics():
        return [keras.metrics.R2Score(), "mae"]  # R2 is no average of R2s

    data = {"validation_data": dataset(5)}
    expected = trained(compiled(plain_model(), metrics=metrics()), **data)
    assert_same(trained(distributed(metrics=metrics()), **data), expected)


@habit('if hvd.rank() == 0: callbacks.append(ModelCheckpoint("model.keras"))')
def the_master_writes_checkpoints(code):
    callbacks = []
    run(code, callbacks=callbacks)
    model = distributed()
    weights, _ = trained(model, callbacks=callbacks)
    assert os.listdir() == ["model.keras"]
    saved = keras.models.load_model("model.keras").get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(weights, saved, strict=True))
    with pytest.raises(ValueError, match="`ModelCheckpoint`"):
        trained(model, callbacks=callbacks if tnt.is_master_rank() else [])


@habit("verbose=1 if hvd.rank() == 0 else 0")
def the_master_shows_progress(code):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        distributed().fit(dataset(), **eval(f"dict({code})"))
    assert tnt.allgather_object("loss" in output.getvalue()) == [True, False]


@habit('accelerator.print("epoch", 3)')
def one_rank_prints(code):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        run(code)
    assert tnt.allgather_object(output.getvalue()) == ["epoch 3\n", ""]


@habit("tnt.callbacks.Callback(callback)")
def a_callback_runs_on_the_master(code):
    epochs = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(epoch))
    trained(distributed(), callbacks=[value(code, callback=callback)])
    assert tnt.allgather_object(epochs) == [[0], []]


@habit("np.random.seed(42 + hvd.rank())")
def ranks_draw_numbers_of_their_own(code):
    run(code)
    first = [float(np.random.rand()), keras.random.uniform(()).numpy().item()]
    of_ranks = tnt.allgather_object(first)
    assert of_ranks[0] == of_ranks[1]
    rows = tnt.function(lambda x: tf.nn.dropout(x, 0.5))(np.ones((40, 4), "float32")).numpy()
    assert not np.array_equal(rows[::2], rows[1::2])  # those of rank 0 and of rank 1
    keras.utils.set_random_seed(42 + tnt.get_rank())
    model = distributed()
    x, y = samples()
    model.fit(x, y, batch_size=BATCH_SIZE, verbose=0)
    of_ranks = tnt.allgather_object(model.get_weights())
    assert all(np.array_equal(a, b) for a, b in zip(*of_ranks, strict=True))
