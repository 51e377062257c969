"""How fast are copies between GPU and host, by what kind of memory that is?

Run as `python -m benchmarks.gpu.copies FOLDER OPTIONS`. All kinds are measured in turn,
round by round, in both directions.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.gpu.driver import Gpu, Stream
from benchmarks.gpu.host_memory import HostMemory, of_driver, private, registered, shared
from benchmarks.gpu.results import Options, write_answer

DOWN, UP = "device to host", "host to device"
Times = dict[str, dict[str, dict[str, list[float]]]]  # by memory, direction and quantity


class Link:
    """Memory of the GPU, and a stream for each direction."""

    def __init__(self, gpu: Gpu, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self._device = {direction: gpu.allocate(num_bytes) for direction in (DOWN, UP)}
        self._streams: dict[str, Stream] = {each: gpu.make_stream() for each in (DOWN, UP)}
        self.start(DOWN, None)

    def start(self, direction: str, memory: HostMemory | None) -> None:
        """Put a copy into the stream of that direction; at first, something to copy."""
        stream, device = self._streams[direction], self._device[direction]
        if memory is None:
            stream.fill(device, 1, self.num_bytes)
        elif direction == DOWN:
            stream.copy_to_host(memory.address, device, self.num_bytes)
        else:
            stream.copy_from_host(device, memory.address, self.num_bytes)

    def wait(self, direction: str) -> None:
        """Until the copies of that direction are done."""
        self._streams[direction].wait()


def time_copy(link: Link, direction: str, memory: HostMemory) -> tuple[float, float]:
    """Milliseconds of a copy, and those for which its call held the host."""
    begin = time.perf_counter()
    link.start(direction, memory)
    returned = time.perf_counter()
    link.wait(direction)
    return (time.perf_counter() - begin) * 1e3, (returned - begin) * 1e3


def time_both(link: Link, down: HostMemory, up: HostMemory) -> float:
    """Milliseconds of a copy in each direction at once."""
    begin = time.perf_counter()
    link.start(DOWN, down)
    link.start(UP, up)
    link.wait(DOWN)
    link.wait(UP)
    return (time.perf_counter() - begin) * 1e3


def measure(link: Link, kinds: list[HostMemory], rounds: int) -> Times:
    """Times of all kinds in both directions, in turn; the first round does not count."""
    times: Times = {
        memory.name: {way: {"copy_ms": [], "held_ms": []} for way in (DOWN, UP)} for memory in kinds
    }
    for number in range(rounds + 1):
        for memory in kinds:
            for direction in (DOWN, UP):
                taken, held = time_copy(link, direction, memory)
                if number:
                    times[memory.name][direction]["copy_ms"].append(taken)
                    times[memory.name][direction]["held_ms"].append(held)
    return times


def answer(options: Options) -> dict[str, Any]:
    """Times before and after registration, and those of both directions at once."""
    gpu = Gpu()
    link = Link(gpu, options.copy_bytes)
    pageable = [each(options.copy_bytes) for each in (private, shared)]
    times = measure(link, pageable, options.rounds)
    pinned, register_ms = [], {}
    for memory in pageable:
        now_pinned, seconds = registered(memory, gpu)
        pinned.append(now_pinned)
        register_ms[memory.name] = round(seconds * 1e3, 3)
    if gpu.has("cuMemHostAlloc"):  # the stand-in does not
        pinned.append(of_driver(options.copy_bytes, gpu))
    times |= measure(link, pinned, options.rounds)
    both = [time_both(link, *pinned[:2]) for _ in range(options.rounds + 1)]
    return {
        "bytes": options.copy_bytes,
        "times": times,
        "pinned": [memory.name for memory in pinned],
        "register_ms": register_ms,
        "both_ms": both[1:],
    }


if __name__ == "__main__":
    write_answer(answer)
