"""A GPU as a program uses it: memory, a stream, and copies in the order of the stream."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
NOT_READY = 600


class Gpu:
    """A GPU of the driver that `TNT_CUDA_LIBRARY` names, in its primary context."""

    def __init__(self, ordinal: int) -> None:
        self._driver = ctypes.CDLL(os.environ["TNT_CUDA_LIBRARY"])
        self.ordinal = ordinal
        self._call("cuInit", ctypes.c_uint(0))
        self._context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), ordinal)
        self._call("cuCtxPushCurrent_v2", self._context)
        stream = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
        self.stream: int = stream.value or 0

    def array(self, values: Array) -> int:
        """Return the address of memory that holds these values, for work in the stream."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(values.nbytes, 1)))
        self.write(address.value, values)
        return address.value

    def write(self, address: int, values: Array) -> None:
        """Let the stream write values."""
        source = np.ascontiguousarray(values)
        if source.nbytes:
            self._call(
                "cuMemcpyHtoDAsync_v2",
                ctypes.c_uint64(address),
                source.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_size_t(source.nbytes),
                ctypes.c_void_p(self.stream),
            )

    def read(self, address: int, like: Array) -> Array:
        """Return what is there when the stream has come so far."""
        values = np.empty_like(like)
        if values.nbytes:
            self._call(
                "cuMemcpyDtoHAsync_v2",
                values.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_uint64(address),
                ctypes.c_size_t(values.nbytes),
                ctypes.c_void_p(self.stream),
            )
        while self._driver.cuStreamQuery(ctypes.c_void_p(self.stream)) == NOT_READY:
            time.sleep(1e-4)
        return values

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._driver, name)(*arguments)
        assert result == 0, f"{name} gives {result}"
