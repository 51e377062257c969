"""Times of steps without communication, of communication without steps, and of both together."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tarantella as tnt
import tnt_comm
from benchmarks.training_steps import time_steps, versions

IMAGE_SHAPE = (32, 32, 3)
NUM_CLASSES = 10
WIDTHS = {
    "cnn": ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512)),
    "tiny": ((8,), (16,)),  # for tests
}


def build_model(name: str) -> keras.Model:
    """A network for small images, in the manner of VGG (https://arxiv.org/abs/1409.1556).

    `cnn` has 7.6 million parameters. Its last layers, whose gradients come first, hold nearly all
    of them, and every stage computes about as much: while the large gradients travel, most of
    backpropagation is still to be done.
    """
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential([keras.Input(IMAGE_SHAPE)])
    for stage in WIDTHS[name]:
        for width in stage:
            model.add(layers.Conv2D(width, 3, padding="same", activation="relu"))
        model.add(layers.MaxPooling2D())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(NUM_CLASSES))
    return model


def compiled(model: keras.Model) -> keras.Model:
    """With an optimizer that costs little."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss, jit_compile=False)
    return model


def batches(batch_size: int, num_batches: int) -> Any:
    """Batches of one and the same random image: its content does not matter for the time."""
    image = np.random.default_rng(1).random(IMAGE_SHAPE, dtype=np.float32)
    samples = tf.data.Dataset.from_tensors((image, np.int32(1)))
    return samples.repeat(batch_size * num_batches).batch(batch_size)


def slowest(times: list[float]) -> list[float]:
    """The slowest rank's time of each repetition. Collective."""
    slowest_times: list[float] = tnt_comm.allreduce(np.array(times), op="max").tolist()
    return slowest_times


def make_exchange(model: keras.Model, threshold_bytes: int) -> Callable[[], None]:
    """The call that sums all gradients of the model, in the buckets of its training."""
    variables = model.trainable_variables
    tensors = [tnt_comm.TensorSpec(v.path, v.dtype, int(np.prod(v.shape))) for v in variables]
    plan = tnt_comm.FusionPlan(tensors, threshold_bytes)
    reducer = tnt_comm.GradientReducer(plan, name="gradients without a step")
    gradients = [np.ones(tensor.num_elements, tensor.dtype) for tensor in plan.tensors]
    backwards = range(len(gradients) - 1, -1, -1)

    def exchange() -> None:
        for index in backwards:
            reducer.start(index, gradients[index])
        for index in backwards:
            reducer.finish(index)

    return exchange


def time_calls(call: Callable[[], None], num_calls: int) -> list[float]:
    """Seconds of each call, ranks starting together. Collective."""
    times = []
    for _ in range(num_calls):
        tnt_comm.barrier()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def measure(
    threshold_kb: int, name: str, batch_size: int, num_rounds: int, num_steps: int
) -> dict[str, Any]:
    """Measure the three in turn. Collective.

    Args:
        threshold_kb: The fusion threshold that the distributed model was told by the environment.
        name: Of the network.
        batch_size: Samples of each rank.
        num_rounds: How often all three are measured.
        num_steps: Of each in a round.

    Returns:
        For each of the three, rounds of seconds.
    """
    plain = compiled(build_model(name))
    distributed = compiled(tnt.Model(build_model(name)))
    global_size = batch_size * tnt_comm.get_size()
    time_steps(plain, batches(batch_size, 2))
    time_steps(distributed, batches(global_size, 2))
    exchange = make_exchange(distributed, 1024 * threshold_kb)
    time_calls(exchange, 1)
    rounds: dict[str, list[list[float]]] = {"compute": [], "communicate": [], "together": []}
    for _ in range(num_rounds):
        tnt_comm.barrier()
        steps = time_steps(plain, batches(batch_size, num_steps))
        rounds["compute"].append(slowest([step.wall_s for step in steps]))
        rounds["communicate"].append(slowest(time_calls(exchange, num_steps)))
        steps = time_steps(distributed, batches(global_size, num_steps))
        rounds["together"].append(slowest([step.wall_s for step in steps]))
    num_parameters = int(plain.count_params())
    return {"versions": versions(), "parameters": num_parameters, "rounds": rounds}
