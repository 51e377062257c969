"""Data."""

import numpy as np
import pytest
import tensorflow as tf

import tarantella as tnt
from habits.row import (
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
