"""A GPU through the functions of CUDA's driver: what the programs of this benchmark need of one.

It shares nothing with tnt-comm but the library that is opened. `python -m benchmarks.gpu.driver`
prints which GPU that is.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

LIBRARY = "libcuda.so.1"
STAND_IN = "Stand-in GPU"
"""How the GPU of the tests calls itself, which is memory and threads of the host."""

NOT_READY = 600  # CUDA_ERROR_NOT_READY
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING
PORTABLE = 1  # CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTALLOC_PORTABLE
WAIT_S = 20.0  # less than a program has
SPIN_S = 0.01  # what is timed ends sooner

HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)

# The numbers in names say which of several interfaces of one name is meant.
_ARGUMENTS: dict[str, tuple[type, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxRecordEvent": (c_void_p, c_void_p),
    "cuCtxWaitEvent": (c_void_p, c_void_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
    "cuMemHostUnregister": (c_void_p,),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamQuery": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuLaunchHostFunc": (c_void_p, HOST_FUNCTION, c_void_p),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
}


class DriverError(RuntimeError):
    """A function of the driver that has failed, or a GPU that does not come to an end."""


class Gpu:
    """The first GPU that this process sees, with its primary context current in this thread.

    What it gives lives as long as the process.
    """

    def __init__(self) -> None:
        path = os.environ.get("TNT_CUDA_LIBRARY") or LIBRARY
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise DriverError(f"No CUDA driver can be opened: {error}.") from error
        self.call("cuInit", 0)
        version, device, context = c_int(), c_int(), c_void_p()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxPushCurrent_v2", context)
        self.name = name.value.decode()
        self.driver_version = version.value
        self.context = context

    def has(self, function: str) -> bool:
        """Whether the driver has that function."""
        return hasattr(self._library, function)

    def result_of(self, function: str, *arguments: object) -> int:
        """Call a function of the driver; return the number that it gives."""
        found = getattr(self._library, function)
        found.argtypes = _ARGUMENTS[function]
        result: int = found(*arguments)
        return result

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of the driver that must succeed."""
        result = self.result_of(function, *arguments)
        if result:
            raise DriverError(f"{function} has failed with {self._name_of(result)}.")

    def _name_of(self, result: int) -> str:
        name = c_char_p()
        self.result_of("cuGetErrorName", result, ctypes.byref(name))
        return name.value.decode() if name.value else f"error {result}"

    def allocate(self, num_bytes: int) -> int:
        """The address of new memory of the GPU."""
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), num_bytes)
        return pointer.value

    def make_stream(self) -> Stream:
        """A stream that waits for no other."""
        stream = c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        return Stream(self, stream.value or 0)

    def make_event(self) -> c_void_p:
        """An event without a time."""
        event = c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), DISABLE_TIMING)
        return event

    def register(self, address: int, num_bytes: int) -> None:
        """Let the driver copy to and from pages of the host without staging."""
        self.call("cuMemHostRegister_v2", address, num_bytes, PORTABLE)


class Stream:
    """A queue of work. All functions but `wait` return at once, if the driver lets them."""

    def __init__(self, gpu: Gpu, handle: int) -> None:
        self._gpu = gpu
        self.handle = handle
        self._functions: list[object] = []  # they must live until they are called

    def fill(self, to: int, value: int, num_bytes: int) -> None:
        """Write a byte to all of the range."""
        self._gpu.call("cuMemsetD8Async", to, value, num_bytes, self.handle)

    def copy(self, to: int, source: int, num_bytes: int) -> None:
        """Copy within the memory of the GPU."""
        self._gpu.call("cuMemcpyDtoDAsync_v2", to, source, num_bytes, self.handle)

    def copy_to_host(self, to: int, source: int, num_bytes: int) -> None:
        """Copy from the GPU to an address of the host."""
        self._gpu.call("cuMemcpyDtoHAsync_v2", to, source, num_bytes, self.handle)

    def copy_from_host(self, to: int, source: int, num_bytes: int) -> None:
        """Copy from an address of the host to the GPU."""
        self._gpu.call("cuMemcpyHtoDAsync_v2", to, source, num_bytes, self.handle)

    def run_on_host(self, function: Callable[[], None]) -> None:
        """Call a function behind what is in the stream; what comes later waits for it."""
        held = HOST_FUNCTION(lambda _: function())
        self._functions.append(held)
        self._gpu.call("cuLaunchHostFunc", self.handle, held, None)

    def record(self, event: c_void_p) -> None:
        """Let the event mark what is in the stream now."""
        self._gpu.call("cuEventRecord", event, self.handle)

    def wait_for(self, event: c_void_p) -> None:
        """Let what comes into the stream later wait for what the event marks."""
        self._gpu.call("cuStreamWaitEvent", self.handle, event, 0)

    def wait(self) -> None:
        """Hold the caller until all is done."""
        begin = time.perf_counter()
        while (result := self._gpu.result_of("cuStreamQuery", self.handle)) == NOT_READY:
            waited_s = time.perf_counter() - begin
            if waited_s > WAIT_S:
                raise DriverError(f"The GPU has not done its work within {WAIT_S:g} s.")
            if waited_s < SPIN_S:
                os.sched_yield()
            else:
                time.sleep(1e-4)
        if result:
            raise DriverError(f"The work of a stream has failed with error {result}.")


def main() -> None:
    gpu = Gpu()
    print(json.dumps({"name": gpu.name, "driver": gpu.driver_version}))


if __name__ == "__main__":
    main()
