"""PMIx, the library by which processes of Open MPI and of `srun --mpi=pmix` exchange values."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tnt_comm.errors import CommError
from tnt_comm.start.rendezvous import FIRST_CALL_OF_OTHERS, LOOK_S, Clock, Wait

_KEY = b"tarantella"
_STRING, _GLOBAL = 3, 3  # PMIX_STRING, PMIX_GLOBAL


class _Process(ctypes.Structure):
    _fields_ = (("nspace", ctypes.c_char * 256), ("rank", ctypes.c_uint32))


class _Value(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint16),
        ("padding", ctypes.c_uint8 * 6),
        ("string", ctypes.c_char_p),
        ("rest", ctypes.c_uint64 * 6),
    )


class Pmix:
    """The library, which tells the process manager that this process is there."""

    def __init__(self, environment: Mapping[str, str], rank: int, wait: Wait) -> None:
        """Find the library and start it."""
        self._rank, self._wait = rank, wait
        self._library = _open(environment)
        self._process = _Process()
        self._call("PMIx_Init", ctypes.byref(self._process), None, ctypes.c_size_t(0))

    def broadcast(self, text: str, is_root: bool) -> str:
        """Return the text of rank 0. Collective."""
        if is_root:
            value = _Value(type=_STRING, string=text.encode())
            self._call("PMIx_Put", ctypes.c_uint8(_GLOBAL), _KEY, ctypes.byref(value))
            self._call("PMIx_Commit")
        nothing = ctypes.c_size_t(0)
        self._call("PMIx_Fence", None, nothing, None, nothing)
        root = _Process(nspace=self._process.nspace, rank=0)
        found = ctypes.POINTER(_Value)()
        self._call("PMIx_Get", ctypes.byref(root), _KEY, None, nothing, ctypes.byref(found))
        return bytes(found.contents.string).decode()

    def close(self) -> None:
        """Say goodbye: that this process ends is no failure."""
        self._call("PMIx_Finalize", None, ctypes.c_size_t(0))

    def _call(self, function: str, *arguments: Any) -> None:
        """Call a function of the library, which has no deadlines of its own."""
        codes: list[int] = []

        def call() -> None:
            codes.append(getattr(self._library, function)(*arguments))

        thread = threading.Thread(target=call, name="tnt-pmix", daemon=True)
        thread.start()
        clock = Clock(self._wait, self._rank)
        while not codes:
            thread.join(LOOK_S)
            if not codes:
                clock.look(FIRST_CALL_OF_OTHERS)
        if codes[0] != 0:
            self._library.PMIx_Error_string.restype = ctypes.c_char_p
            why = self._library.PMIx_Error_string(codes[0]).decode()
            raise CommError(f"{function}: {why}. Was the process started by `mpirun` itself?")


def _open(environment: Mapping[str, str]) -> ctypes.CDLL:
    reasons = []
    for path in _places(environment):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise CommError(
        "Ranks of Open MPI on several hosts find each other through PMIx, but its library was "
        f"not found ({'; '.join(reasons)}). Add its folder to LD_LIBRARY_PATH, or start the "
        "script with `tarantella`."
    )


def _places(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield where the library of the process manager itself may be, then that of the loader."""
    # Of another version, it prints errors.
    for name, inside in (("PMIX_PREFIX", "lib"), ("OMPI_LIBDIR_LOC", "")):
        if environment.get(name):
            folder = os.path.join(environment[name], inside)
            yield os.path.join(folder, "openmpi", "libpmix.so.2")
            yield os.path.join(folder, "libpmix.so.2")
    yield "libpmix.so.2"
    yield "libpmix.so"
