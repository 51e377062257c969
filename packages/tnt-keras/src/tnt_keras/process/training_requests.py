"""What is requested of a training while it runs: a backup now, or its end by a scheduler's signal.

A request is one of this rank until all ranks have agreed on it, which they do after each step: so
they save, and leave, at the same one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from tnt_comm.board import has_launcher, is_ending
from tnt_keras.process.rank import get_rank, get_size, is_master_rank, logger, settings

ASKING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""By which schedulers announce the end of a job; one event may bring several of them."""

EXIT_CODE = os.EX_TEMPFAIL
"""That of a rank which has left since it was asked to: run the job again."""

_own_signal = 0  # the first that has come
_own_backup = False
_agreed_signal = 0
_agreed_backup = False
_listening: list[int] = []  # signals for which the handler is ours
_timer: threading.Timer | None = None


def request_backup() -> None:
    """Request a backup at the end of this step. Local, in any thread and handler."""
    global _own_backup
    _own_backup = True


def own_requests() -> tuple[int, int]:
    """Return what this rank has been asked for, as numbers of which the largest counts. Local."""
    return _own_signal, int(_own_backup)


def agree(asked_by: int, backup: int) -> None:
    """Take note of the largest numbers of all ranks. Local."""
    global _agreed_signal, _agreed_backup, _own_backup
    _agreed_signal = asked_by
    if backup:
        _agreed_backup, _own_backup = True, False


def asked_by() -> int:
    """Return the signal by which the end was requested, as all ranks know it; 0 for none. Local."""
    return _agreed_signal if get_size() > 1 else _own_signal


def takes_backup() -> bool:
    """Return whether all ranks are to write a backup now, and forget that it was requested."""
    global _agreed_backup
    if get_size() == 1:
        agree(*own_requests())
    was_requested, _agreed_backup = _agreed_backup, False
    return was_requested or asked_by() != 0


def is_rank_of_job() -> bool:
    """Return whether something has started this process as a rank, be it the only one. Local."""
    return get_size() > 1 or has_launcher()


@contextlib.contextmanager
def listening(*, has_backup: bool) -> Iterator[bool]:
    """Note requests in the block; False where signals end the process as they do without us.

    A rank of a job also listens afterwards, since its script may have something to finish, such as
    to save the model. A process of its own listens only if there is a backup to save.
    """
    is_rank = is_rank_of_job()
    if not (is_rank or has_backup):
        yield False
        return
    listen()
    try:
        yield True
    finally:
        if not is_rank:
            stop_listening()


def listen() -> None:
    """Note the signals of schedulers from now on, where a script has no handler of its own."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread can set handlers
    for number in ASKING:
        if number not in _listening and _is_free(number):
            if not _listening:
                _forget_in_forks()
                atexit.register(_ignore)
            signal.signal(number, _note)
            _listening.append(number)


def stop_listening() -> None:
    """Let the signals do again what they do without us."""
    is_main = threading.current_thread() is threading.main_thread()
    for number in list(_listening) if is_main else ():
        if signal.getsignal(number) is _note:  # and not a later one of the script's
            signal.signal(number, signal.SIG_DFL)
        _listening.remove(number)


def _ignore() -> None:
    """Let a rank that is done end in peace: Python takes handlers away before the process ends."""
    for number in _listening:
        if signal.getsignal(number) is _note:
            signal.signal(number, signal.SIG_IGN)


def leave(where: str, backup: str | None) -> NoReturn:
    """End the program of this rank, since all ranks are asked to, and say why. Collective."""
    if is_master_rank():
        is_there = backup is not None and os.path.isdir(backup) and os.listdir(backup)
        then = "start from the beginning, without a backup"
        if is_there:
            then = f"continue from the backup in {backup}"
        logger.warning(
            "%s: leaving `fit` %s, with exit code %d. Started again, the script will %s. "
            "[asked-to-end]",
            signal.Signals(asked_by()).name,
            where,
            EXIT_CODE,
            then,
        )
    if _timer is not None:
        _timer.cancel()
    if threading.current_thread() is not threading.main_thread():
        sys.stdout.flush()
        os._exit(EXIT_CODE)  # the exception would end this thread alone
    raise SystemExit(EXIT_CODE)


def _note(number: int, frame: FrameType | None) -> None:
    global _own_signal, _timer
    if is_ending():  # the launcher has sent it after a failure: there is nothing to agree on
        stop_listening()
        os.kill(os.getpid(), number)
    if _own_signal:
        return  # one event brings several signals
    _own_signal = number
    if not has_launcher():  # which would end this process after the same time
        _timer = threading.Timer(settings().grace_s, _end_now)
        _timer.daemon = True
        _timer.start()


def _end_now() -> None:
    name, seconds = signal.Signals(_own_signal).name, settings().grace_s
    sys.stderr.write(
        f"tarantella: rank {get_rank()} ends now: {name} came {seconds:g} s ago (TNT_GRACE_S), "
        "and no training step has ended since\n"
    )
    sys.stderr.flush()
    os._exit(128 + _own_signal)


_is_forgotten_in_forks = False


def _forget_in_forks() -> None:
    """Let processes that this one forks, as readers of data, end by the signals as before."""
    global _is_forgotten_in_forks
    if not _is_forgotten_in_forks:
        _is_forgotten_in_forks = True
        os.register_at_fork(after_in_child=stop_listening)


def _is_free(number: int) -> bool:
    """Return whether nobody handles a signal, be it in C, as `faulthandler` does."""
    if signal.getsignal(number) is not signal.SIG_DFL:
        return False
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status") as status:
        caught = next((line for line in status if line.startswith("SigCgt:")), "SigCgt: 0")
        return not int(caught.split()[1], 16) >> (number - 1) & 1
    return True
