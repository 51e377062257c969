"""Ranks, models, optimizers and rates."""

import keras
import numpy as np

import tarantella as tnt
from habits.row import (
    assert_same,
    compiled,
    distributed,
    habit,
    plain_model,
    run,
    serial,
    trained,
    value,
)


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
