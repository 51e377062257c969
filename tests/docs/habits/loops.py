"""Training loops of one's own."""

import keras
import numpy as np
import tensorflow as tf

import tarantella as tnt
from habits.row import (
    BATCH_SIZE,
    RATE,
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


def train_step_of(model, optimizer, loss_of=None):
    def train_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(tf.square(model(x, training=True) - y), axis=1)
            loss = tf.reduce_mean(losses) if loss_of is None else loss_of(losses)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply(gradients, model.trainable_weights)
        return loss

    return train_step


def loop(make_step, loss_of=None):
    """Losses and weights of a loop over all batches; without `make_step` of plain TensorFlow."""
    model, optimizer = plain_model(), keras.optimizers.SGD(RATE)
    step = make_step(train_step_of(model, optimizer, loss_of))
    losses = [float(step(x, y)) for x, y in dataset()]
    return model.get_weights(), {"loss": losses}


@habit(
    "tape = hvd.DistributedGradientTape(tape)",
    "strategy.run(train_step, args=(x, y))",
)
def a_step_is_that_of_all_ranks(code):
    found = loop(lambda train_step: run(code, train_step=train_step)["train_step"])
    assert_same(found, loop(tf.function))


@habit('strategy.reduce("MEAN", loss, axis=None)')
def a_step_returns_what_the_whole_batch_gives(code):
    assert_same(loop(tnt.function), loop(tf.function))


@habit("tf.nn.compute_average_loss(losses, global_batch_size=6)")
def a_loss_is_a_mean(code):
    expected = loop(tf.function)
    assert_same(loop(tnt.function, lambda losses: value(code, losses=losses)), expected)

    def left(losses):
        return tf.nn.compute_average_loss(losses, global_batch_size=BATCH_SIZE)

    old, of_plain = loop(tnt.function, left), loop(tf.function, left)
    assert_same(old, of_plain)
    np.testing.assert_allclose(old[1]["loss"][:-1], expected[1]["loss"][:-1], rtol=1e-5)


def loop_with_penalty(make_step, scaled):
    """As `loop`; the loss is a mean and a penalty of the weights."""
    model, optimizer = plain_model(), keras.optimizers.SGD(RATE)

    def loss_of(losses):
        penalty = tf.add_n([tf.nn.l2_loss(weight) for weight in model.trainable_weights])
        return tf.reduce_mean(losses) + scaled(penalty)

    step = make_step(train_step_of(model, optimizer, loss_of))
    losses = [float(step(x, y)) for x, y in dataset()]
    return model.get_weights(), {"loss": losses}


@habit("tf.nn.scale_regularization_loss(penalty)")
def a_penalty_is_added_as_it_is(code):
    expected = loop_with_penalty(tf.function, tf.nn.scale_regularization_loss)
    found = loop_with_penalty(tnt.function, lambda penalty: value(code, penalty=penalty))
    assert_same(found, expected)


@habit("hvd.broadcast_variables(model.variables, root_rank=0)")
def the_first_step_begins_with_the_weights_of_the_master(code):
    model, optimizer = plain_model(), keras.optimizers.SGD(RATE)
    if not tnt.is_master_rank():
        model.set_weights([weight + 1.0 for weight in model.get_weights()])
    step = tnt.function(train_step_of(model, optimizer))
    losses = [float(step(x, y)) for x, y in dataset()]
    assert_same((model.get_weights(), {"loss": losses}), loop(tf.function))


@habit('context.all_reduce("SUM", x)', "strategy.gather(x, axis=0)")
def a_step_has_the_rows_of_all_ranks(code):
    x, _ = samples()

    @tnt.function
    def step(x):
        rows = value(code, x=x)
        return tf.reduce_sum(tf.cumsum(rows))  # depends on the order of rows

    expected = np.cumsum(x.sum(axis=0) if "sum" in code else x, axis=0).sum()
    np.testing.assert_allclose(float(step(x)), expected, rtol=1e-4)


@habit("accelerator.gather_for_metrics((predictions, targets))")
def predictions_are_those_of_all_samples(code):
    model = distributed()
    found = value(code.replace(")", ", verbose=0)"), model=model, dataset=dataset())
    np.testing.assert_allclose(found, plain_model()(samples()[0]), rtol=1e-5, atol=1e-6)


@habit("if tnt.is_master_rank(): model.evaluate(dataset)")
def samples_of_an_evaluation_are_shared(code):
    found = value(code.replace(")", ", verbose=0)"), model=distributed(), dataset=dataset())
    expected = compiled(plain_model()).evaluate(dataset(), verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@habit("CommunicationOptions(implementation=NCCL)")
def sums_are_formed_by_tnt_comm(code):
    before = tnt.comm.counters().num_operations
    assert_same(trained(distributed()), serial())
    assert tnt.comm.counters().num_operations > before


@habit("manager.save() of tf.train.CheckpointManager, on all workers")
def the_master_writes_checkpoints_of_a_loop(code):
    model = plain_model()
    step = tnt.function(train_step_of(model, keras.optimizers.SGD(RATE)))
    x, y = samples()
    step(x, y)
    checkpoint = tf.train.Checkpoint(weights=[weight.value for weight in model.weights])
    manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=1)
    before = model.get_weights()
    run(code, manager=manager)
    tnt.Barrier().execute()
    step(x, y)
    checkpoint.restore(tf.train.latest_checkpoint("checkpoints")).assert_consumed()
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
