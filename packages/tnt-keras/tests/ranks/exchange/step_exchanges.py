"""Exchanges of steps on several ranks, with values that every rank can compute for all."""

from __future__ import annotations

import dataclasses
import gc
import random
import time
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

import tnt_comm
from tnt_keras.exchange.step_exchange import StepChannels, StepExchange

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    kind: str
    value: tf.Tensor
    name: str = "value"
    line: str = ""
    is_update: bool = False


def _graph(step: Callable[..., Any]) -> Any:
    return tf.function(step, autograph=False)


# ---- every dtype ----


def all_dtypes() -> list[tf.DType]:
    """All of this TensorFlow but resource and variant."""
    left_out = {types_pb2.DT_INVALID, types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT}
    numbers = [n for name, n in types_pb2.DataType.items() if not name.endswith("_REF")]
    return [tf.dtypes.as_dtype(number) for number in numbers if number not in left_out]


def values_of(dtype: tf.DType, shape: list[int], seed: int) -> Array:
    """Values that differ, as an array of NumPy."""
    integers = np.random.default_rng(seed).integers(0, 2, shape)
    if dtype == tf.string:
        texts = [b"", b"\0\xff", b"x" * 22, b"y" * 23, "ä".encode(), b"z" * 5000]
        return np.array([texts[(i + seed) % 6] for i in range(integers.size)], object).reshape(
            shape
        )
    numpy_dtype = np.dtype(dtype.as_numpy_dtype)
    if dtype.is_quantized:
        return integers.astype(numpy_dtype[0]).view(numpy_dtype)
    return integers.astype(numpy_dtype)


def bits(array: Any) -> Any:
    """What two equal arrays have in common, also those whose elements NumPy cannot compare."""
    array = np.asarray(array)
    return array.shape, array.tolist() if array.dtype == object else array.tobytes()


ROWS_OF_RANK = [2, 0, 3]  # of rank 0, 1, 2


def gather_and_broadcast_every_dtype() -> dict[str, dict[str, bool]]:
    """For every dtype, which of the ways to exchange it has given the right bits."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    channels = StepChannels("train_step")
    found = {}
    for dtype in all_dtypes():
        rows = [values_of(dtype, [ROWS_OF_RANK[r], 2], r) for r in range(size)]
        whole = [values_of(dtype, [r + 2, 3], r) for r in range(size)]

        def step(own_rows: tf.Tensor, own_whole: tf.Tensor) -> dict[str, tf.Tensor]:
            exchange = channels.new_exchange()
            pairs = [("gather", own_rows), ("broadcast", own_whole)]
            single = [exchange.blocking(Request(kind, value)) for kind, value in pairs]
            grouped = []
            for last in (False, True):
                for kind, value in pairs:
                    exchange.ask(Request(kind, value))
                grouped += exchange.flush(last)
            names = [f"{kind} {how}" for how in ("alone", "inside", "last") for kind, _ in pairs]
            return dict(zip(names, [*single, *grouped], strict=True))

        results = _graph(step)(
            tf.constant(rows[rank], dtype, rows[rank].shape),
            tf.constant(whole[rank], dtype, whole[rank].shape),
        )
        expected = {"gather": bits(np.concatenate(rows)), "broadcast": bits(whole[0])}
        found[dtype.name] = {
            name: bits(result) == expected[name.split()[0]] for name, result in results.items()
        }
    return found


OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
KINDS_OF_DTYPE = {
    **{name: list(OPERATIONS) for name in INTEGERS},
    **{name: ["sum", "prod", "min", "max"] for name in ("bfloat16", "float16")},
    **{name: ["sum", "prod", "min", "max"] for name in ("float32", "float64")},
    **{name: ["sum", "prod"] for name in ("complex64", "complex128")},
    "bool": ["min", "max", "and", "or"],
}


def numbers_of(dtype: str, shape: list[int], seed: int) -> Array:
    """Any integers, of which results wrap around; small whole numbers of other dtypes."""
    generator = np.random.default_rng(seed)
    if dtype in INTEGERS:
        return generator.integers(0, 2**64, shape, np.uint64).astype(dtype)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    numbers = generator.integers(-3, 4, shape).astype(np.complex128)
    if dtype.startswith("complex"):
        return (numbers + 1j * generator.integers(-3, 4, shape)).astype(dtype)
    return numbers.real.astype(tf.dtypes.as_dtype(dtype).as_numpy_dtype)


def reduced(kind: str, arrays: list[Array]) -> Array:
    with np.errstate(over="ignore"):
        return reduce(OPERATIONS[kind], arrays)


def reduce_every_dtype() -> dict[str, bool]:
    """For every dtype and reduction, whether all ways to exchange it are right."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    channels = StepChannels("train_step")
    cases = [(kind, dtype) for dtype, kinds in KINDS_OF_DTYPE.items() for kind in kinds]
    values = [[numbers_of(dtype, [2, 3], 9 * r + 1) for r in range(size)] for _, dtype in cases]

    @_graph
    def step(own: list[tf.Tensor]) -> list[list[tf.Tensor]]:
        exchange = channels.new_exchange()
        results = []
        for last in (False, True):
            for (kind, _), value in zip(cases, own, strict=True):
                exchange.ask(Request(kind, value, is_update=last))
            results.append(exchange.flush(last))
            results.append(
                [
                    exchange.blocking(Request(kind, value))
                    for (kind, _), value in zip(cases, own, strict=True)
                ]
            )
        return results

    ways = step([tf.constant(of_ranks[rank]) for of_ranks in values])
    return {
        f"{kind} {dtype}": all(bits(way[i]) == bits(reduced(kind, values[i])) for way in ways)
        for i, (kind, dtype) in enumerate(cases)
    }


def reduce_floats_that_are_not_finite() -> dict[str, list[float]]:
    """Greatest, smallest and sum of numbers, infinities and NaN on different ranks."""
    nan, inf = float("nan"), float("inf")
    own = [[1.0, nan, inf, -inf], [2.0, 1.0, 1.0, 1.0]][tnt_comm.get_rank() % 2]
    channels = StepChannels("train_step")

    @_graph
    def step(value: tf.Tensor) -> list[tf.Tensor]:
        exchange = channels.new_exchange()
        for kind in ("max", "min", "sum"):
            exchange.ask(Request(kind, value))
        return exchange.flush(last=True)

    return {
        kind: result.numpy().tolist()
        for kind, result in zip(("max", "min", "sum"), step(tf.constant(own)), strict=True)
    }


# ---- programs of random requests ----


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A request of a random program: what each rank contributes follows from the seed."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    seed: int
    is_update: bool

    def of_rank(self, rank: int) -> Array:
        shape = list(self.shape)
        if self.kind == "gather":
            shape[0] = (self.seed + rank * 7) % 4
        if self.kind == "broadcast":
            shape = [*shape, rank]
        seed = self.seed * 31 + rank
        if self.dtype == "string":
            return values_of(tf.string, shape, seed)
        return numbers_of(self.dtype, shape, seed)

    def of_all(self, size: int) -> Array:
        arrays = [self.of_rank(rank) for rank in range(size)]
        if self.kind == "gather":
            return np.concatenate(arrays)
        return arrays[0] if self.kind == "broadcast" else reduced(self.kind, arrays)


def random_program(seed: int) -> list[tuple[str, list[Wanted]]]:
    """Groups and single values, the last group at the end."""
    choose = random.Random(seed)

    def wanted() -> Wanted:
        kind = choose.choice(["sum", "sum", "sum", "gather", "broadcast", "max", "prod"])
        dtypes = [name for name, kinds in KINDS_OF_DTYPE.items() if kind in kinds]
        dtype = choose.choice(
            [*KINDS_OF_DTYPE, "string"] if kind in ("gather", "broadcast") else dtypes
        )
        shape = tuple(choose.choice([0, 1, 2, 3, 500]) for _ in range(choose.randint(1, 2)))
        return Wanted(kind, dtype, shape, choose.randrange(1000), choose.random() < 0.5)

    places = [
        choose.choice(["inside", "alone", "loop", "branch"]) for _ in range(choose.randint(0, 5))
    ]
    program = [
        (place, [wanted() for _ in range(choose.randint(1, 6) if place == "inside" else 1)])
        for place in places
    ]
    return [*program, ("last", [wanted() for _ in range(choose.randint(0, 6))])]


def _traced(exchange: StepExchange, place: str, requests: list[Request]) -> list[tf.Tensor]:
    if place in ("inside", "last"):
        for request in requests:
            exchange.ask(request)
        return exchange.flush(last=place == "last")
    [request] = requests
    if place == "alone":
        return [exchange.blocking(request)]

    def once() -> tf.Tensor:
        result = exchange.blocking(request)
        # A loop must say which shapes its values have; they are those of a string here.
        return tf.io.serialize_tensor(result)

    def made() -> list[tf.Tensor]:
        if place == "branch":
            return [tf.cond(tf.timestamp() > 0.0, once, lambda: tf.constant(""))]
        return tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, once()), [0, ""])[1:]

    [text] = exchange.ordered(made)
    return [tf.io.parse_tensor(text, request.value.dtype)]


def _program_as_graph(program: list[tuple[str, list[Wanted]]], channels: StepChannels) -> Any:
    @_graph
    def step(values: list[list[tf.Tensor]]) -> list[list[tf.Tensor]]:
        exchange = channels.new_exchange()
        return [
            _traced(
                exchange,
                place,
                [
                    Request(wanted.kind, value, str(wanted.seed), "", wanted.is_update)
                    for wanted, value in zip(group, of_group, strict=True)
                ],
            )
            for (place, group), of_group in zip(program, values, strict=True)
        ]

    return step


def run_random_programs(seeds: list[int]) -> list[str]:
    """Runs each program twice with channels that all share; returns what was wrong."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    channels = StepChannels("train_step")
    wrong = []
    for seed in seeds:
        program = random_program(seed)
        step = _program_as_graph(program, channels)
        own = [[tf.constant(wanted.of_rank(rank)) for wanted in group] for _, group in program]
        for results in (step(own), step(own)):
            for (place, group), of_group in zip(program, results, strict=True):
                wrong += [
                    f"seed {seed}, {place}: {wanted}"
                    for wanted, result in zip(group, of_group, strict=True)
                    if bits(result) != bits(wanted.of_all(size))
                ]
    return wrong


# ---- branches and loops ----


def exchange_in_loops(parallel_iterations: int) -> list[list[int]]:
    """What a loop gathers whose iterations ranks reach at different times."""
    rank = tnt_comm.get_rank()
    channels = StepChannels("train_step")
    num_iterations = 5

    def delayed(i: tf.Tensor) -> tf.Tensor:
        """Slow in the first iterations of rank 0: later ones would overtake, if they could."""
        seconds = 0.02 * tf.cast(num_iterations - i, tf.float64) * (1.0 - rank)
        result = tf.numpy_function(_sleep, [i, seconds], tf.int32, stateful=False)
        return tf.ensure_shape(result, [])

    @_graph
    def step() -> tf.Tensor:
        exchange = channels.new_exchange()
        exchange.ask(Request("sum", tf.ones([2])))
        exchange.flush(last=False)
        shape = [num_iterations, tnt_comm.get_size()]
        specs = [tf.TensorSpec([], tf.int32), tf.TensorSpec(shape, tf.int32)]

        def body(i: tf.Tensor, rows: tf.Tensor) -> Any:
            gathered = exchange.blocking(Request("gather", delayed(i)[tf.newaxis]))
            return i + 1, tf.tensor_scatter_nd_update(rows, [[i]], gathered[tf.newaxis])

        functions = [
            _graph(function).get_concrete_function(*specs)
            for function in (lambda i, _: i < num_iterations, body)
        ]
        start = [tf.constant(0), tf.zeros(shape, tf.int32)]
        _, rows = exchange.ordered(
            lambda: tf.raw_ops.While(
                input=start,
                cond=functions[0],
                body=functions[1],
                parallel_iterations=parallel_iterations,
            )
        )
        exchange.flush(last=True)
        return rows

    rows: list[list[int]] = step().numpy().tolist()
    return rows


def _sleep(i: Any, seconds: float) -> Any:
    time.sleep(seconds)
    return i


def exchange_in_conditions_of_loops() -> list[float]:
    """A loop that goes on until the sum over ranks is large, and a branch that depends on one."""
    channels = StepChannels("train_step")
    rank = tnt_comm.get_rank()

    @_graph
    def step(x: tf.Tensor) -> Any:
        exchange = channels.new_exchange()

        def goes_on(i: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
            return exchange.blocking(Request("sum", value)) < 100.0

        def body(i: tf.Tensor, value: tf.Tensor) -> Any:
            exchange.blocking(Request("gather", x[tf.newaxis], "nobody reads it"))
            return i + 1, value * 2.0 + 0.0 * exchange.blocking(Request("max", x))

        count, value = exchange.ordered(lambda: tf.while_loop(goes_on, body, [0, x]))
        total = exchange.blocking(Request("sum", value))

        def branch(kind: str) -> Callable[[], tf.Tensor]:
            return lambda: exchange.blocking(Request(kind, value))

        [chosen] = exchange.ordered(lambda: [tf.cond(total > 150.0, branch("min"), branch("max"))])
        exchange.ask(Request("sum", tf.reduce_sum(value)))
        [last] = exchange.flush(last=True)
        return tf.cast(count, tf.float32), total, chosen, last

    return [float(result) for result in step(tf.constant(rank + 1.0))]


def count_operations_of_unread_values(num_steps: int) -> tuple[int, int]:
    """Collectives of a step whose results rank 0 alone reads, and of one whose results all read."""
    channels = StepChannels("train_step")
    counts = []
    for readers in ([0], range(tnt_comm.get_size())):
        is_reader = tnt_comm.get_rank() in readers

        @_graph
        def step(value: tf.Tensor) -> Any:
            exchange = channels.new_exchange()
            same = [exchange.blocking(Request("sum", value)) for _ in range(3)]
            single = [exchange.blocking(Request("gather", value)) for _ in range(2)]
            for kind in ("sum", "gather", "broadcast", "max"):
                exchange.ask(Request(kind, value))
            inside = exchange.flush(last=False)
            exchange.ask(Request("sum", value))
            results = [*same, *single, *inside, *exchange.flush(last=True)]
            return results if is_reader else None  # noqa: B023 (called here)

        step(tf.constant([1.0]))
        before = tnt_comm.counters().num_operations
        for _ in range(num_steps):
            step(tf.constant([1.0]))
        counts.append(tnt_comm.counters().num_operations - before)
    return counts[0], counts[1]


# ---- several graphs of a step ----


def graphs_of_a_step() -> dict[str, Any]:
    """Sums of graphs that ask for the same sizes in another order, run in turn."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    channels = StepChannels("train_step")
    shapes = {"a": [3], "b": [3], "c": [2, 2], "d": [20_000]}

    def graph(names: list[str]) -> Any:
        def step() -> dict[str, tf.Tensor]:
            exchange = channels.new_exchange()
            for name in names:
                value = tf.fill(shapes[name], (rank + 1.0) * (1 + names.index(name)))
                # Layers may have other names on other ranks.
                exchange.ask(Request("sum", value, f"{name} of rank {rank}", "", is_update=True))
            exchange.ask(Request("sum", tf.constant(rank + 1, tf.uint16), "count"))
            results = exchange.flush(last=True)
            return dict(zip([*names, "count"], results, strict=True))

        return _graph(step)

    orders = [list("abcd"), list("dcba"), list("bdac")]
    graphs = [graph(order) for order in orders]
    factor = size * (size + 1) / 2
    right = True
    for _ in range(3):
        for order, run in zip(orders, graphs, strict=True):
            results = run()
            right &= int(results["count"]) == int(factor)
            for position, name in enumerate(order):
                right &= bool(np.all(results[name] == factor * (position + 1)))
    operations = [
        operation
        for run in graphs
        for operation in run.get_concrete_function().graph.get_operations()
        if operation.type == "TntStartReduce"
    ]
    return {
        "right": right,
        "reducers": len({operation.get_attr("reducer") for operation in operations}),
        "sums": len(operations),
    }


def objects_end_with_their_channels() -> list[int]:
    """How many reducers and gatherers a step adds to those there are, and leaves."""

    def count() -> int:
        gc.collect()
        kinds = tnt_comm.GradientReducer, tnt_comm.Gatherer
        return sum(isinstance(each, kinds) for each in gc.get_objects())

    def count_in_a_step() -> int:
        channels = StepChannels("train_step")

        @_graph
        def step() -> Any:
            exchange = channels.new_exchange()
            exchange.ask(Request("sum", tf.ones([2]), is_update=True))
            exchange.ask(Request("gather", tf.ones([2])))
            return exchange.flush(last=True)

        step()
        return count()

    before = count()
    return [count_in_a_step() - before, count() - before]
