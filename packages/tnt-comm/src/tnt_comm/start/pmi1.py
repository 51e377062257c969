"""PMI-1, the wire protocol of process managers such as Hydra (MPICH, Intel MPI) and Flux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from tnt_comm.errors import CommError, CommTimeoutError
from tnt_comm.start.rendezvous import FIRST_CALL_OF_OTHERS, LOOK_S, Clock, Wait

_MOST_BYTES = 4096  # of a line
_KEY = "tarantella"
_BARRIER = "barrier_in"
_MPI = re.compile(r"/\S*/libmpi(?:ch)?\.so\S*")


class Pmi1:
    """A connection to the process manager, which ends all if this process says no goodbye."""

    def __init__(self, descriptor: int, rank: int, wait: Wait) -> None:
        """Say that this process is there."""
        self._rank, self._wait = rank, wait
        try:
            self._socket = socket.socket(fileno=os.dup(descriptor))
        except OSError as error:
            raise CommError(
                f"PMI_FD={descriptor} is not a connection to a process manager: {error.strerror}. "
                "Start the script with `mpirun` itself, or with `tarantella`."
            ) from error
        self._ask("init", pmi_version="1", pmi_subversion="1")
        self._name = self._ask("get_my_kvsname").get("kvsname", "")

    def broadcast(self, text: str, is_root: bool) -> str:
        """Return the text of rank 0. Collective."""
        if is_root:
            self._ask("put", kvsname=self._name, key=_KEY, value=text.encode().hex())
        self._ask(_BARRIER)
        value = self._ask("get", kvsname=self._name, key=_KEY).get("value", "")
        return bytes.fromhex(value).decode()

    def close(self) -> None:
        """Say goodbye: that this process ends is no failure."""
        if not _has_mpi():  # which says goodbye itself, and needs the manager until then
            self._ask("finalize")
        self._socket.close()

    def _ask(self, command: str, **words: str) -> Mapping[str, str]:
        line = " ".join([f"cmd={command}", *(f"{name}={text}" for name, text in words.items())])
        # The descriptor has one mode for all who use it, an MPI among them.
        before = self._socket.gettimeout()
        self._socket.settimeout(self._wait.timeout_s)
        try:
            self._socket.sendall(line.encode() + b"\n")
            self._socket.settimeout(LOOK_S)
            told = self._line(command)
        except CommTimeoutError:  # an OSError, too
            raise
        except OSError as error:
            raise CommError(_gone(str(error))) from error
        finally:
            self._socket.settimeout(before)
        answer = dict(word.split("=", 1) for word in told.split() if "=" in word)
        if answer.get("rc", "0") != "0":
            raise CommError(f"the process manager answered to `{command}`: {told}")
        return answer

    def _line(self, command: str) -> str:
        """Return the answer to a command, looking now and then at what else there is to know."""
        awaited = FIRST_CALL_OF_OTHERS if command == _BARRIER else "its process manager"
        clock, line = Clock(self._wait, self._rank), bytearray()
        while not line.endswith(b"\n"):
            byte = None
            with contextlib.suppress(TimeoutError):
                byte = self._socket.recv(1)  # no more: what follows may be for an MPI
            if byte is None:
                clock.look(awaited)
                continue
            if not byte or len(line) > _MOST_BYTES:
                raise CommError(_gone("it closed the connection, or uses a different protocol"))
            line += byte
        return line.decode(errors="replace").strip()


def _has_mpi() -> bool:
    """Return whether the program has started an MPI as well, through mpi4py for example."""
    for path in set(_MPI.findall(Path("/proc/self/maps").read_text())):
        is_initialized = ctypes.c_int()
        ctypes.CDLL(path).MPI_Initialized(ctypes.byref(is_initialized))
        if is_initialized.value:
            return True
    return False


def _gone(why: str) -> str:
    return (
        f"the process manager has ended: {why}. See the output of mpirun; if all ranks run, start "
        "them with `tarantella`, which needs no process manager."
    )
