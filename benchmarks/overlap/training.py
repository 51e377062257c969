"""Times of steps without communication, of communication without steps, and of both together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

import tarantella as tnt
import tnt_comm
from benchmarks.keras_models import CNN_SHAPE, CNN_WIDTHS, vgg
from benchmarks.overlap.plain_sockets import BesideSteps, PlainTransfer
from benchmarks.training_steps import batches, time_steps, versions

WIDTHS: dict[str, Sequence[Sequence[int]]] = {
    "cnn": CNN_WIDTHS,
    "tiny": ((8,), (16,)),  # for tests
}

TIMES = ("compute", "communicate", "together", "transfer", "beside")  # of README.md


def build_model(name: str) -> keras.Model:
    """Equal on all ranks."""
    keras.utils.set_random_seed(1)
    return vgg(keras, WIDTHS[name])


def compiled(model: keras.Model) -> keras.Model:
    """With an optimizer that costs little."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss, jit_compile=False)
    return model


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
    """Measure all in turn; return rounds of seconds for each. Collective."""
    plain = compiled(build_model(name))
    trained = compiled(tnt.Model(build_model(name)))
    global_size = batch_size * tnt_comm.get_size()
    time_steps(plain, batches(CNN_SHAPE, batch_size, 2))
    time_steps(trained, batches(CNN_SHAPE, global_size, 2))
    exchange = make_exchange(trained, 1024 * threshold_kb)
    time_calls(exchange, 1)
    transfer = PlainTransfer(
        sum(variable.value.numpy().nbytes for variable in plain.trainable_variables)
    )
    rounds: dict[str, list[list[float]]] = {name: [] for name in TIMES}
    for _ in range(num_rounds):
        tnt_comm.barrier()
        steps = time_steps(plain, batches(CNN_SHAPE, batch_size, num_steps))
        rounds["compute"].append(slowest([step.wall_s for step in steps]))
        rounds["communicate"].append(slowest(time_calls(exchange, num_steps)))
        steps = time_steps(trained, batches(CNN_SHAPE, global_size, num_steps))
        rounds["together"].append(slowest([step.wall_s for step in steps]))
        rounds["transfer"].append(slowest(time_calls(transfer, num_steps)))
        data = batches(CNN_SHAPE, batch_size, num_steps)
        steps = time_steps(plain, data, beside=[BesideSteps(transfer)])
        rounds["beside"].append(slowest([step.wall_s for step in steps]))
    num_parameters = int(plain.count_params())
    return {"versions": versions(), "parameters": num_parameters, "rounds": rounds}
