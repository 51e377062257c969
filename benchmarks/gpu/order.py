"""Do events of a whole context order streams whose handles are not known?

Run as `python -m benchmarks.gpu.order FOLDER OPTIONS`. Slow work and a value behind it are put into
one stream; another stream then copies the value. It sees the old one unless it has waited. That is
tried first: if a stream waits without being told, this says nothing of events.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

from benchmarks.gpu.driver import Gpu, Stream
from benchmarks.gpu.results import Options, write_answer
from benchmarks.spread import quartiles, rounded

OLD, NEW = 0, 7
SLOW_S = 0.05
CHAIN_LENGTHS = (100, 300, 1000, 3000)  # until they take long enough

SlowWork = Callable[[Stream], None]


class Trial:
    """Two streams, an event, and a value that one writes and the other copies."""

    def __init__(self, gpu: Gpu, slow_work: SlowWork) -> None:
        self._gpu = gpu
        self._slow_work = slow_work
        self._value, self._copy = (gpu.allocate(1) for _ in range(2))
        self.writer, self.reader = gpu.make_stream(), gpu.make_stream()
        self.event = gpu.make_event()

    def seen(self, order: Callable[[], None]) -> int:
        """What the reader copies, if `order` is called between the work of both."""
        self.writer.fill(self._value, OLD, 1)
        self.writer.wait()
        self._slow_work(self.writer)
        self.writer.fill(self._value, NEW, 1)
        order()
        self.reader.copy(self._copy, self._value, 1)
        self.writer.wait()
        self.reader.wait()
        seen = ctypes.c_ubyte()
        self.reader.copy_to_host(ctypes.addressof(seen), self._copy, 1)
        self.reader.wait()
        return seen.value


def sleep_on_host(stream: Stream) -> None:
    """Slow work: a function of the host that sleeps."""
    stream.run_on_host(lambda: time.sleep(SLOW_S))


class Chain:
    """Slow work: copies within the GPU, one behind the other."""

    def __init__(self, gpu: Gpu, num_bytes: int) -> None:
        self._source, self._target = (gpu.allocate(num_bytes) for _ in range(2))
        self._num_bytes = num_bytes
        self.length = 1

    def __call__(self, stream: Stream) -> None:
        for _ in range(self.length):
            stream.copy(self._target, self._source, self._num_bytes)


def make_chain(gpu: Gpu, num_bytes: int) -> Chain:
    """As many copies as it takes until a stream that does not wait comes before them."""
    chain = Chain(gpu, num_bytes)
    trial = Trial(gpu, chain)
    for chain.length in CHAIN_LENGTHS:
        if trial.seen(lambda: None) == OLD:
            break
    return chain


def orders_seen(gpu: Gpu, slow_work: SlowWork) -> dict[str, int]:
    """What is seen without an order, and with events of the whole context on either side."""
    trial = Trial(gpu, slow_work)

    def record_all_streams() -> None:
        gpu.call("cuCtxRecordEvent", gpu.context, trial.event)
        trial.reader.wait_for(trial.event)

    def hold_up_all_streams() -> None:
        trial.writer.record(trial.event)
        gpu.call("cuCtxWaitEvent", gpu.context, trial.event)

    return {
        "control": trial.seen(lambda: None),
        "cuCtxRecordEvent": trial.seen(record_all_streams),
        "cuCtxWaitEvent": trial.seen(hold_up_all_streams),
    }


def call_times_us(gpu: Gpu, num_calls: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds of a call from Python, which costs as much as the cheapest of them."""
    stream, event, version = gpu.make_stream(), gpu.make_event(), ctypes.c_int()
    calls: dict[str, Callable[[], None]] = {
        "cuDriverGetVersion": lambda: gpu.call("cuDriverGetVersion", ctypes.byref(version)),
        "cuEventRecord": lambda: stream.record(event),
        "cuStreamWaitEvent": lambda: stream.wait_for(event),
        "cuCtxRecordEvent": lambda: gpu.call("cuCtxRecordEvent", gpu.context, event),
        "cuCtxWaitEvent": lambda: gpu.call("cuCtxWaitEvent", gpu.context, event),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(num_calls):
                call()
            times[name].append((time.perf_counter() - begin) / num_calls * 1e6)
            stream.wait()
    return {name: rounded(quartiles(each), 3) for name, each in times.items()}


def held_ms(gpu: Gpu) -> float:
    """How long `cuCtxWaitEvent` holds the host if what it waits for is slow."""
    trial = Trial(gpu, sleep_on_host)
    times: list[float] = []

    def hold_up_all_streams() -> None:
        trial.writer.record(trial.event)
        begin = time.perf_counter()
        gpu.call("cuCtxWaitEvent", gpu.context, trial.event)
        times.append((time.perf_counter() - begin) * 1e3)

    trial.seen(hold_up_all_streams)
    return round(times[0], 3)


def answer(options: Options) -> dict[str, object]:
    """All of it; without answers if the driver has no events of a context."""
    gpu = Gpu()
    if not gpu.has("cuCtxRecordEvent"):
        return {"driver": gpu.driver_version, "seen": {}}
    works: dict[str, SlowWork] = {
        "host function": sleep_on_host,
        "copies": make_chain(gpu, options.chain_bytes),
    }
    return {
        "driver": gpu.driver_version,
        "seen": {name: orders_seen(gpu, work) for name, work in works.items()},
        "new": NEW,
        "held_ms": held_ms(gpu),
        "call_us": call_times_us(gpu, options.calls, options.rounds),
    }


if __name__ == "__main__":
    write_answer(answer)
