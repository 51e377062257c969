"""What lines that replace those of other tools do: one function for each row of the page.

Each runs on two ranks with the code of its row, and compares with what the line on the left does:
with plain Keras on the samples of all ranks, or with a formula.
"""

import contextlib
import functools
import io
import os
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import tarantella as tnt

HABITS = {}
"""By the left cell of the row."""

NUM_SAMPLES, BATCH_SIZE = 21, 6
"""The last batch has 3 samples: 2 for rank 0 and 1 for rank 1."""

RATE = 0.1


def habit(*lines):
    """Note that a function looks at the rows with these left cells."""

    def note(function):
        for line in lines:
            assert line not in HABITS
            HABITS[line] = function
        return function

    return note


def check(line, code, folder):
    """Run the check of a row on this rank, in an empty folder that all ranks share."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        HABITS[line](code)
    finally:
        os.chdir(before)


def samples():
    generator = np.random.default_rng(3)
    x = generator.normal(size=(NUM_SAMPLES, 4)).astype("float32")
    return x, (x[:, :2] ** 2).astype("float32")


def dataset(batch_size=BATCH_SIZE):
    data = tf.data.Dataset.from_tensor_slices(samples())
    return data if batch_size is None else data.batch(batch_size)


def plain_model(*more):
    keras.utils.set_random_seed(7)
    return keras.Sequential([keras.Input((4,)), *more, keras.layers.Dense(2)])


def compiled(model, optimizer=None, **options):
    """A compiled model, which runs eagerly: four steps take less time than a graph."""
    options = {"run_eagerly": True, **options}
    model.compile(optimizer or keras.optimizers.SGD(RATE), "mse", **options)
    return model


def distributed(*more, **options):
    return compiled(tnt.Model(plain_model(*more)), **options)


def trained(model, data=None, **options):
    """Train for one epoch; weights, losses and metrics."""
    history = model.fit(dataset() if data is None else data, verbose=0, **options)
    return model.get_weights(), history.history


@functools.cache
def serial():
    """What plain Keras gives."""
    return trained(compiled(plain_model()))


def assert_same(found, expected):
    """Weights and logs are equal to rounding, and the same bits on all ranks."""
    (weights, logs), (expected_weights, expected_logs) = found, expected
    for one, other in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert logs.keys() == expected_logs.keys()
    for name, values in logs.items():
        np.testing.assert_allclose(values, expected_logs[name], rtol=1e-5, atol=1e-6)
    of_ranks = tnt.allgather_object((weights, logs))
    assert all(np.array_equal(a, b) for a, b in zip(of_ranks[0][0], of_ranks[1][0], strict=True))
    assert of_ranks[0][1] == of_ranks[1][1]


def run(code, **given):
    """Run the code of a cell; the names it knows, and its value if it is an expression."""
    names = {"keras": keras, "np": np, "tf": tf, "tnt": tnt, **given}
    try:
        names["value"] = eval(code, names)
    except SyntaxError:
        exec(code, names)
    return names


def value(code, **given):
    return run(code, **given)["value"]


# Who is who.


@habit("hvd.init()", "hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()")
def numbers(code):
    of_rank = value(code) if code else (tnt.get_rank(), tnt.get_size())
    expected = [(0, 2, 0, 2), (1, 2, 1, 2)]
    assert tnt.allgather_object(of_rank) == [each[: len(of_rank)] for each in expected]


@habit(
    "hvd.rank() == 0",
    "strategy.cluster_resolver.task_id == 0",
    "accelerator.is_main_process",
    "tnt.get_rank() == tnt.get_size() - 1",
)
def one_rank_is_the_master(code):
    assert tnt.allgather_object(value(code)) == [True, False]


@habit("strategy.num_replicas_in_sync")
def number_of_ranks(code):
    assert value(code) == 2


# Models, optimizers and rates.


@habit(
    "optimizer = hvd.DistributedOptimizer(optimizer)",
    "with strategy.scope():",
    "keras.distribution.set_distribution(DataParallel())",
    "DistributedDataParallel(model), accelerator.prepare(model)",
)
def a_model_trains_as_in_a_serial_run(code):
    model = run(code, model=plain_model())["model"]
    assert_same(trained(compiled(model, run_eagerly=False)), serial())


@habit("accelerator.unwrap_model(model)", "model.model")
def the_model_is_that_of_keras(code):
    given = plain_model()
    model = tnt.Model(given)
    assert value(code, model=model) is given
    assert isinstance(given, keras.Sequential)


@habit("tnt.optimizers.Optimizer(keras.optimizers.SGD(0.1))")
def an_optimizer_is_plain(code):
    assert_same(trained(distributed(optimizer=value(code))), serial())


@habit(
    "hvd.DistributedOptimizer(optimizer, backward_passes_per_step=2)",
    "with accelerator.accumulate(model):, model.no_sync()",
    "accelerator.clip_grad_norm_(model.parameters(), 1.0)",
)
def an_optimizer_works_on_gradients_of_the_whole_batch(code):
    expected = trained(compiled(plain_model(), value(code)))
    moved = np.abs(expected[0][0] - serial()[0][0]).max()
    assert moved > 1e-3  # the argument has an effect
    assert_same(trained(distributed(optimizer=value(code))), expected)


@habit("SGD(0.1 * hvd.size())")
def the_rate_grows(code):
    assert float(value(code).learning_rate) == np.float32(0.2)


@habit("LearningRateWarmupCallback(0.1 * hvd.size(), warmup_epochs=5)")
def the_rate_grows_in_the_first_epochs(code):
    steps_per_epoch, size = 4, tnt.get_size()
    schedule = value(code, steps_per_epoch=steps_per_epoch)
    for step in range(5 * steps_per_epoch + 3):
        epoch = min(step / steps_per_epoch, 5)
        expected = 0.1 * size / size * (epoch * (size - 1) / 5 + 1)
        np.testing.assert_allclose(float(schedule(step)), expected, rtol=1e-6)
    optimizer = keras.optimizers.SGD(schedule)
    expected = trained(compiled(plain_model(), keras.optimizers.SGD(schedule)))
    assert_same(trained(distributed(optimizer=optimizer)), expected)


@habit("find_unused_parameters=True")
def weights_without_gradients_stay(code):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.used, self.unused = keras.layers.Dense(2), keras.layers.Dense(2)
            self.unused.build((None, 4))

        def call(self, x):
            return self.used(x)

    results = []
    for wrap in (lambda model: model, tnt.Model):
        keras.utils.set_random_seed(7)
        model = compiled(wrap(Model()))
        before = np.array(model.unused.kernel)
        results.append(trained(model))
        np.testing.assert_array_equal(model.unused.kernel, before)
    assert_same(*reversed(results))


@habit("hvd.SyncBatchNormalization()", "SyncBatchNorm.convert_sync_batchnorm(model)")
def statistics_are_those_of_the_whole_batch(code):
    expected = trained(compiled(plain_model(value(code))))
    assert_same(trained(distributed(value(code))), expected)


# Data.


@habit("dataset.batch(8)")
def batches_of_all_ranks_are_one(code):
    data = run(code, dataset=dataset(None))["value"]
    assert_same(trained(distributed(), data), trained(compiled(plain_model()), dataset(16)))


@habit("dataset.batch(64 * strategy.num_replicas_in_sync)")
def batches_are_global(code):
    data = value(code, dataset=tf.data.Dataset.range(128))
    assert [len(batch) for batch in data] == [128]
    assert [len(part) for part in tnt.data.distribute(data)] == [64]


@habit("context.get_per_replica_batch_size(9)")
def a_batch_is_shared(code):
    assert tnt.allgather_object(value(code)) == [5, 4]


@habit("dataset.shard(hvd.size(), hvd.rank())")
def all_ranks_give_the_same_data(code):
    assert_same(trained(distributed()), serial())
    left = dataset(None).shard(tnt.get_size(), tnt.get_rank()).batch(3)
    with pytest.raises(ValueError, match="the dataset must be the same on all ranks"):
        trained(distributed(), left)


@habit("steps_per_epoch = 6 // hvd.size()")
def an_epoch_has_fewer_larger_steps(code):
    steps = run(code)["steps_per_epoch"]
    model = distributed()
    model.fit(dataset(7 * tnt.get_size()).repeat(), steps_per_epoch=steps, verbose=0)
    assert int(model.optimizer.iterations) == 3


@habit("options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA")
def options_of_sharding_have_no_effect(code):
    policies = tf.data.experimental.AutoShardPolicy
    for policy in (policies.OFF, policies.DATA):
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = policy
        assert_same(trained(distributed(), dataset().with_options(options)), serial())


@habit("strategy.experimental_distribute_dataset(dataset)")
def elements_are_shared(code):
    parts = [x.numpy() for x, _ in value(code, dataset=dataset())]
    for batch, part in zip(dataset(), parts, strict=True):
        np.testing.assert_array_equal(part, batch[0][tnt.get_rank() :: 2])


@habit("model.fit(strategy.distribute_datasets_from_function(make))")
def ranks_give_batches_of_their_own(code):
    x, y = samples()

    def make():
        own = x[tnt.get_rank() : 20 : 2], y[tnt.get_rank() : 20 : 2]
        return tf.data.Dataset.from_tensor_slices(own).batch(5)

    model = distributed()
    history = value(code, model=model, make=make).history
    expected = tf.data.Dataset.from_tensor_slices((x[:20], y[:20])).batch(10)
    assert_same(
        (model.get_weights(), history),
        trained(compiled(plain_model()), expected),
    )


@habit("DistributedSampler(data), sampler.set_epoch(epoch)")
def ranks_share_each_batch_in_new_orders(code):
    data = tf.data.Dataset.range(40).shuffle(40).batch(8)
    parts = tnt.data.distribute(data)
    epochs = []
    for _ in range(2):
        of_ranks = tnt.allgather_object(np.concatenate([part.numpy() for part in parts]).tolist())
        assert sorted(of_ranks[0] + of_ranks[1]) == list(range(40))
        epochs.append(of_ranks)
    assert epochs[0] != epochs[1]


@habit("hvd.join()")
def a_rank_without_samples_takes_part(code):
    x, y = (each[:7] for each in samples())  # a batch of 6, and one of a single sample
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(6)
    assert_same(trained(distributed(), data), trained(compiled(plain_model()), data))


@habit("model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(6))")
def arrays_are_shared(code):
    x, y = samples()
    code = code.replace(")", ", shuffle=False)")  # plain Keras draws another order
    model = distributed()
    history = value(code, model=model, x=x, y=y).history
    assert_same((model.get_weights(), history), serial())


# Callbacks, logs, and what is shown.


@habit("BroadcastGlobalVariablesCallback(0)")
def ranks_begin_with_the_weights_of_the_master(code):
    model = distributed()
    if not tnt.is_master_rank():
        model.set_weights([weight + 1.0 for weight in model.get_weights()])
    assert_same(trained(model), serial())


@habit("MetricAverageCallback()")
def logs_are_those_of_the_serial_run(code):
    options = {"metrics": [keras.metrics.R2Score(), "mae"]}  # R2 is no average of R2s
    data = {"validation_data": dataset(5)}
    expected = trained(compiled(plain_model(), **options), **data)
    assert_same(trained(distributed(**options), **data), expected)


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


# Files.


@habit(
    'if hvd.rank() == 0: model.save("model.keras")',
    "model.save(path if is_chief else temporary_path)",
    'model.save("folder")',
)
def the_master_saves(code):
    model = distributed()
    weights, _ = trained(model)
    run(code, model=model)
    assert os.listdir() == ["model.keras"]
    saved = keras.models.load_model("model.keras").get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(weights, saved, strict=True))


@habit('hvd.load_model("model.keras")')
def training_goes_on(code):
    def make():
        return keras.optimizers.SGD(RATE, momentum=0.9)

    plain = compiled(plain_model(), make())
    trained(plain)
    distributed_model = distributed(optimizer=make())
    trained(distributed_model)
    distributed_model.save("model.keras")
    assert_same(trained(value(code)), trained(plain))


@habit("@hvd.elastic.run")
def a_run_is_continued(code):
    checkpoint, load = code.split("\n")
    trained(distributed(), callbacks=[value(checkpoint)])
    plain = compiled(plain_model())
    trained(plain)
    assert_same(trained(value(load)), trained(plain))


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


# Collectives.


def of_rank(rank):
    return np.arange(4.0) * (rank + 1)


ZERO, ONE = of_rank(0), of_rank(1)


@habit(
    "hvd.allreduce(x)",
    "hvd.allreduce(x, op=hvd.Sum)",
    "hvd.allreduce(x, op=hvd.Max)",
    "hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum)",
    "hvd.allgather(x)",
    "hvd.broadcast(x, root_rank=1)",
    "hvd.reducescatter(x, op=hvd.Sum)",
    "dist.all_reduce(x)",
)
def arrays_of_ranks_become_one(code):
    expected = {
        "tnt.comm.allreduce(x) / tnt.get_size()": (ZERO + ONE) / 2,
        "tnt.comm.allreduce(x)": ZERO + ONE,
        'tnt.comm.allreduce(x, "max")': ONE,
        "tnt.TensorAllreducer([x, 2 * x]).allreduce([x, 2 * x])": [ZERO + ONE, 2 * (ZERO + ONE)],
        "np.concatenate(tnt.comm.allgather(x))": np.concatenate([ZERO, ONE]),
        "tnt.comm.broadcast(x, root=1)": ONE,
        "tnt.comm.reduce_scatter(x)": np.split(ZERO + ONE, 2)[tnt.get_rank()],
    }
    np.testing.assert_array_equal(value(code, x=of_rank(tnt.get_rank())), expected[code])


@habit(
    "hvd.broadcast_object(value, root_rank=0)",
    "hvd.allgather_object(value)",
    "gather_object(value)",
)
def objects_travel(code):
    found = value(code, value={"rank": tnt.get_rank()})
    of_ranks = [{"rank": 0}, {"rank": 1}]
    assert found == (of_ranks if "gather" in code else of_ranks[0])


@habit("hvd.barrier()", "accelerator.wait_for_everyone()")
def ranks_wait(code):
    if tnt.is_master_rank():
        Path("written").touch()
    run(code)
    assert os.listdir() == ["written"]


@habit("with accelerator.main_process_first():")
def the_master_goes_first(code):
    class Folder:
        def mkdir(self, exist_ok):
            found = os.listdir()
            Path("data").mkdir(exist_ok=exist_ok)
            self.found = found

    folder = Folder()
    run(code, folder=folder)
    assert tnt.allgather_object(folder.found) == [[], ["data"]]


@habit("hvd.add_process_set([0, 1])")
def some_ranks_make_a_group(code):
    group = value(code)
    np.testing.assert_array_equal(group.allreduce(of_rank(tnt.get_rank())), ZERO + ONE)


# Loops of one's own.


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

    old, of_plain = loop(tnt.function(probe="error"), left), loop(tf.function, left)
    assert_same(old, of_plain)
    np.testing.assert_allclose(old[1]["loss"][:-1], expected[1]["loss"][:-1], rtol=1e-5)


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

    @tnt.function(probe="error")
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
