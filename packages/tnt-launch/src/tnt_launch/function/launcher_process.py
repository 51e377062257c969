"""The launcher as its caller sees it: it gets an order, writes, and tells how the job went."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
from types import TracebackType

from tnt_launch.function.launcher import Order, Outcome
from tnt_launch.function.python_command import command_of, interpreter
from tnt_launch.function.relay import Relay


class LauncherProcess:
    """A launcher that runs one job for this process; a context manager. Not thread-safe.

    It leads a session of its own: the Ctrl-C of a terminal and the interrupt of a notebook's kernel
    go to whole process groups, and must reach the launcher once, through this process.
    """

    def __init__(self) -> None:
        """Start the launcher, which waits for its order."""
        read_end, write_end = os.pipe()
        self._outcome = open(read_end, "rb", buffering=0)  # `__exit__` closes it
        try:
            self._popen = subprocess.Popen(
                (interpreter(), *command_of(f"{__package__}.launcher", os.getpid(), write_end)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(write_end,),
                start_new_session=True,
            )
        except BaseException:
            self._outcome.close()
            raise
        finally:
            os.close(write_end)

    def __enter__(self) -> LauncherProcess:
        """Return this launcher."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the launcher end; after an error at once, and all that it started with it."""
        if kind is not None:
            self._popen.kill()
        with contextlib.suppress(BrokenPipeError):
            self._popen.communicate(b".")  # it need not keep the folder for us any longer
        self._outcome.close()

    def run(self, order: Order) -> Outcome | None:
        """Let a job run, and write what comes from it to `sys.stdout` and `sys.stderr` meanwhile.

        Args:
            order: The job.

        Returns:
            How the job went, `None` if the launcher itself was killed.

        Raises:
            KeyboardInterrupt: If this process was interrupted; all ranks have ended then.
        """
        popen = self._popen
        assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None
        reason: BaseException | None = None
        with contextlib.suppress(BrokenPipeError):  # killed already: it gives no outcome
            popen.stdin.write(pickle.dumps(order))
            popen.stdin.flush()
        with Relay(popen.stdout, popen.stderr, self._outcome) as relay:
            while not relay.is_over:
                try:
                    relay.advance()
                except KeyboardInterrupt as interrupt:
                    reason = interrupt
                    popen.send_signal(signal.SIGINT)
                except Exception as error:  # stdout of this process cannot be written
                    reason = error
                    relay.mute()
                    popen.send_signal(signal.SIGTERM)
        if reason is not None:
            raise reason
        return Outcome(**json.loads(relay.message)) if _is_whole(relay.message) else None


def _is_whole(message: bytes) -> bool:
    return message.endswith(b"}")
