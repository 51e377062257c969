"""The program that a rank of a test runs: receive calls, execute them, send the results back."""

# Started by path and not as a module, and importing the standard library only: a rank must not
# import `tnt_comm` (and with it the compiled core) unless the function under test does.

from __future__ import annotations

import sys

# Python puts this file's folder first on the path; its modules must not shadow anybody's.
if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry != __file__.rpartition("/")[0]]

import ctypes
import faulthandler
import gc
import importlib.util
import os
import pickle
import signal
import socket
import struct
import traceback
from typing import Any

HEADER = struct.Struct("<Q")
PR_SET_PDEATHSIG = 1


def main() -> int:
    """Be a rank; the command line says where the parent is."""
    channel_fd, stacks_fd, parent_pid = (int(word) for word in sys.argv[1:4])
    del sys.argv[1:]
    return serve(channel_fd, stacks_fd, parent_pid)


def serve(channel_fd: int, stacks_fd: int, parent_pid: int) -> int:
    """Serve calls until the last one, or while the channel is open; return 1 if that raised."""
    end_with_parent(parent_pid)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, file=stacks_fd, all_threads=True, chain=False)
    channel = socket.socket(fileno=channel_fd)
    channel.set_inheritable(False)
    os.set_inheritable(stacks_fd, False)
    while (message := _receive(channel)) is not None:
        call = pickle.loads(message)
        sys.path[:] = call["sys_path"]
        kind, payload = _execute(call)
        channel.sendall(HEADER.pack(len(payload) + 1) + kind + payload)
        if call["is_last"]:
            return 0 if kind == b"v" else 1
        _collect_garbage()
    return 0


def _collect_garbage() -> None:
    """Free what the call has left in circles; never look at what is left then again."""
    # A TensorFlow iterator that lives on may take up to a minute to end, in the middle of a later
    # call. And graphs are so many objects that to look through all of them takes seconds, which
    # Python does at the end of the process once more.
    gc.collect()
    gc.freeze()


def _execute(call: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return `(b"v", pickled value)` or `(b"t", traceback text)`."""
    try:
        _import_by_name_or_file(call["module"], call["file"])
        function, arguments = pickle.loads(call["function_and_arguments"])
        value = function(*arguments)
    except SystemExit:
        raise
    except BaseException as error:
        return b"t", _text_of(error)
    try:
        return b"v", pickle.dumps(value)
    except Exception as error:
        reason = f"the result, of type {type(value).__name__}, cannot be pickled"
        return b"t", f"{type(error).__name__}: {reason}: {error}\n".encode()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _text_of(error: BaseException) -> bytes:
    # Without the frames of this file: they are no part of the function under test.
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames)
    return "".join(lines).encode(errors="backslashreplace")


def _import_by_name_or_file(name: str, file: str | None) -> None:
    """Make `name` importable although a test runner may have loaded it from its file alone."""
    if name in sys.modules or file is None:
        return
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None and os.path.samefile(spec.origin, file):
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def end_with_parent(parent_pid: int) -> None:
    """Let the kernel kill this process when its parent ends. Local."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        sys.exit("the process that started this rank has ended")


def _receive(channel: socket.socket) -> bytes | None:
    """Read one message; `None` when the parent has closed the channel."""
    header = _receive_exactly(channel, HEADER.size)
    return None if header is None else _receive_exactly(channel, HEADER.unpack(header)[0])


def _receive_exactly(channel: socket.socket, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        part = channel.recv(min(count - len(received), 1 << 20))
        if not part:
            return None
        received += part
    return bytes(received)


if __name__ == "__main__":
    sys.exit(main())
