"""The program of `Preloaded`: import modules, then fork a rank whenever asked to."""

# It has no threads of its own and does nothing with what it has imported, so that a fork finds
# everything as an import leaves it.

from __future__ import annotations

import gc
import importlib
import os
import pickle
import selectors
import socket
import sys
import warnings
from typing import Any

from tnt_comm.testing.child import end_with_parent, serve
from tnt_comm.testing.preloaded import LIMIT_BYTES


def main() -> int:
    """Import the modules of the command line, then serve forks, which return from here too."""
    # The exit code is 0 when the parent has closed the channel; in a fork that of its last call.
    channel_fd, parent_pid = int(sys.argv[1]), int(sys.argv[2])
    modules = sys.argv[3:]
    del sys.argv[1:]
    end_with_parent(parent_pid)
    for name in modules:
        importlib.import_module(name)
    gc.freeze()  # a collection in a fork would copy every page that holds an object
    return Server(socket.socket(fileno=channel_fd)).run()


class Server:
    """Forks on request, and tells the exit code of each fork to whom it was made for."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)

    def run(self) -> int:
        """Serve until the channel is closed; returns the exit code, here and in each fork."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._channel:
                    self._tell_exit(key)
                    continue
                message, fds, *_ = socket.recv_fds(self._channel, LIMIT_BYTES, 4)
                if not message:
                    return 0
                own_pid = os.getpid()
                pid = self._fork(fds)
                if pid == 0:
                    return self._be_a_rank(pickle.loads(message), fds, own_pid)

    def _fork(self, fds: list[int]) -> int:
        with warnings.catch_warnings():
            # Modules like numpy keep idle threads, of which Python 3.12 warns here.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            return 0
        os.setpgid(pid, pid)  # here, so that it holds when the answer has arrived
        *others, exit_fd = fds
        for fd in others:
            os.close(fd)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, exit_fd))
        self._channel.sendall(str(pid).encode())
        return pid

    def _tell_exit(self, key: selectors.SelectorKey) -> None:
        pid, exit_fd = key.data
        self._selector.unregister(key.fileobj)
        os.close(key.fd)
        _, status = os.waitpid(pid, 0)
        os.write(exit_fd, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(exit_fd)

    def _be_a_rank(self, environment: dict[str, str], fds: list[int], server_pid: int) -> int:
        output_fd, channel_fd, stacks_fd, exit_fd = fds
        for key in [*self._selector.get_map().values()]:
            if key.data is not None:  # the end of another fork
                os.close(key.fd)
                os.close(key.data[1])
        self._selector.close()
        self._channel.close()
        os.dup2(output_fd, sys.stdout.fileno())
        os.dup2(output_fd, sys.stderr.fileno())
        os.close(output_fd)
        os.close(exit_fd)
        os.environ.clear()
        os.environ.update(environment)
        _draw_other_numbers()
        return serve(channel_fd, stacks_fd, server_pid)


def _draw_other_numbers() -> None:
    """Seed numpy's global generator, which forks would share; Python seeds its own."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


if __name__ == "__main__":
    sys.exit(main())
