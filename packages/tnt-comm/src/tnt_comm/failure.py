"""How this rank has failed: told where an error ends its program, not read from its log.

The launcher gets a record, by which it knows whom to blame. Other ranks get a sentence, which their
errors quote; without a launcher this rank's stderr has it, too. An error that the script catches is
nobody's end, and leaves no record.
"""

import atexit
import contextlib
import functools
import os
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from tnt_comm import _core, board
from tnt_comm.start import join

_EXIT_CODES = 0xFF  # the bits that a process can end with
_MOST_CHARACTERS = 1000  # of each text in a record: its entry on the board has a size

# Headings of TensorFlow's, below which the stack of an operation precedes the message.
_IN_GRAPH, _IN_TRACED_FUNCTION = ": Graph execution error:", ": in user code:"
_MESSAGES = {
    _IN_GRAPH: re.compile(
        r"(?:  \(0\) )?(?!Detected at node |<stack traces |Node: |\d+ root error)([^\s(].*)"
    ),
    _IN_TRACED_FUNCTION: re.compile(r'    (?!File ")(\S.*)'),
}
# Where TensorFlow defines the classes of its errors, and what users call that.
_ERRORS, _ERRORS_OF_USERS = "tensorflow.python.framework.errors_impl.", "tf.errors."
_NO_MESSAGE = re.compile(r"[\w.]+: ?")
_NODE = re.compile(
    r"\{\{function_node [^}]*\}\} ?"
    r"|Error in user-defined function passed to \S+ transformation with iterator: \S+: "
)
# Of Python code that an operation runs, or another process.
_TOLD_TRACEBACK = "Traceback (most recent call last):"
# What Keras puts before the message of an error in a layer, which it then shows in bold letters.
_IN_LAYER = re.compile(r"(?:[\w.]+: )?Exception encountered when calling .*\.")
_BOLD = re.compile(r"\x1b\[1m(.*?)\x1b\[0m", re.DOTALL)
_FRAME = re.compile(r'(?:  )?  File "(?P<file>.*)", line (?P<line>\d+)(, in .*)?')
_BESIDE_THIS_PACKAGE = str(Path(__file__).parents[1])
_NOT_THE_USERS = re.compile(
    r"<frozen |__autograph_generated_file"
    r"|/(site|dist)-packages/|/lib(64)?/(python|pypy)3\.\d+/|/python3\.\d+\.zip/"
    r"|/packages/[\w-]+/src/(tnt_\w+|tarantella)/"
    rf"|^{re.escape(_BESIDE_THIS_PACKAGE)}/(tnt_(comm|data|keras|launch)|tarantella)/"
    r"|\.(pyx|pxd|pxi)$"  # libraries in Cython: their frames have no folder
)


@dataclass(frozen=True)
class Failure:
    """How a rank has failed."""

    kind: str = ""  # class of the error, as tracebacks name it
    text: str = ""  # its message, the first line of it
    file: str = ""  # with `line`: the innermost place of the user's own code
    line: int = 0
    cause_rank: int | None = None  # whose end, error or other call this is a consequence of
    time_s: float = 0.0  # when, on the clock of `time.monotonic`

    def __str__(self) -> str:
        """Return place, class and message in one line."""
        place = f"{os.path.basename(self.file)}:{self.line}" if self.file else ""
        return ": ".join(filter(None, [place, self.kind, self.text]))


def describe(error: BaseException) -> Failure:
    """Return what is to be told of an error now. Local."""
    kind, _, text = one_line(error).partition(": ")
    chain = list(_chain(error))
    file, line = next((place for one in chain for place in _user_places(one)), ("", 0))
    ranks = (getattr(one, "cause_rank", None) for one in chain)
    own = _core.get_rank() if join.has_met() else None
    cause_rank = next((rank for rank in ranks if rank not in (None, own)), None)
    told = (printable(each[:_MOST_CHARACTERS]) for each in (kind, text, os.path.abspath(file)))
    kind, text, file = told
    return Failure(kind, text, file if line else "", line, cause_rank, time.monotonic())


def is_of_users(file: str) -> bool:
    """Return whether code is outside Python's library, packages and Tarantella itself. Pure."""
    return not _NOT_THE_USERS.search(file)


def printable(text: str) -> str:
    """Return a text with those bytes escaped, as of a file's name, that are no text. Pure."""
    return text.encode(errors="backslashreplace").decode()


def one_line(error: BaseException) -> str:
    """Return class and message of an error, the first line of it if there are more. Local."""
    # Where TensorFlow puts a heading and the stack of an operation before the message, these are
    # left out. Where Keras names a layer before the message, that is one line with it.
    exception = _printed(error)[1]
    line = _NODE.sub("", exception[0]).replace(_ERRORS, _ERRORS_OF_USERS)
    _, message = _operation(exception)
    if message and line.endswith(_IN_GRAPH):
        return f"{line.removesuffix(_IN_GRAPH)}: {message}"
    line = message or line
    if _NO_MESSAGE.fullmatch(line):  # in this line: it begins with empty ones
        first = next((text.strip() for text in exception[1:] if text.strip()), "")
        line = f"{line.rstrip()} {first}".rstrip()
    if _IN_LAYER.fullmatch(line):
        return " ".join([line, *_message_in_layer(exception)])
    return line


def cause_rank() -> int | None:
    """Return by which other rank communication of this one was broken first, if any. Local."""
    rank = _core.cause_rank()
    return rank if rank >= 0 else None


def tell_of_errors() -> None:
    """Tell of the error that ends the program of this rank, from now on. Local."""
    if not join.is_rank():
        return
    owner, show = os.getpid(), sys.excepthook
    told: list[BaseException] = []

    def take(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
        is_rank = os.getpid() == owner  # and no fork of it
        failure = _recorded(error) if is_rank else None
        show(kind, error, frames)
        if is_rank:
            told.append(error)
            _tell_ranks(failure)

    def take_last() -> None:
        # A script may have put another function in the place of `take`, or end in an orderly way
        # because of an error that it has caught.
        error = getattr(sys, "last_value", None)
        if os.getpid() != owner or told:
            return
        if error is not None:
            _tell_ranks(_recorded(error))
        elif cause_rank() is not None:
            failure = Failure(cause_rank=cause_rank(), time_s=time.monotonic())
            board.note_record(asdict(failure))
        else:
            join.tell_end()

    def take_exit(error: SystemExit) -> None:
        if os.getpid() != owner or told:
            return
        told.append(error)
        if isinstance(error.code, int):
            join.tell_exit(error.code & _EXIT_CODES)
        else:
            _tell_ranks(_recorded(error))

    sys.excepthook = take
    sys.exit = _reporting_exit(sys.exit, take_exit)
    atexit.register(take_last)


class _Exit(SystemExit):
    """What `sys.exit` raises for a failure: reports itself if it ends the program."""

    # The interpreter calls no hook for it, but asks for its code, which no Python code does with
    # nothing below it on the stack. So one that is caught reports nothing.

    def __init__(self, *status: object) -> None:
        super().__init__(*status)
        stack = traceback.walk_stack(sys._getframe(2))
        self.places = [(frame.f_code.co_filename, line) for frame, line in stack][::-1]
        self.cause_rank = cause_rank()  # of an error that the script has caught
        self.report: Callable[[SystemExit], None] | None = None

    @property
    def code(self) -> Any:
        """The exit status."""
        code = super().code
        if self.report is not None and sys._getframe().f_back is None and _is_failure(code):
            self.report(self)
        return code

    @code.setter
    def code(self, value: Any) -> None:
        SystemExit.code.__set__(self, value)  # type: ignore[union-attr]

    def __reduce__(self) -> tuple[Any, ...]:
        return SystemExit, self.args


# As which it is shown.
_Exit.__module__, _Exit.__name__, _Exit.__qualname__ = "builtins", "SystemExit", "SystemExit"


def _is_failure(status: object) -> bool:
    """Return whether others are to know of it: a message, or a number before the first call."""
    if isinstance(status, int):
        return bool(status & _EXIT_CODES) and not join.has_met()
    return _is_message(status)


def _is_message(status: object) -> bool:
    """Return whether `sys.exit` shows it as an error; numbers mean what the script wants."""
    return status is not None and not isinstance(status, int)


def _reporting_exit(
    exit_program: Callable[[Any], NoReturn], report: Callable[[SystemExit], None]
) -> Callable[..., NoReturn]:
    """Return `sys.exit` for the main thread; in others it ends the thread alone."""

    def exit_reporting(status: Any = None, /) -> NoReturn:
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or not _is_failure(status) or isinstance(status, BaseException):
            exit_program(status)
        error = _Exit(*(status if isinstance(status, tuple) else (status,)))
        error.report = report
        raise error

    return functools.wraps(exit_program)(exit_reporting)


def _recorded(error: BaseException) -> Failure | None:
    """Tell the launcher of an error; return what has been told, None if that is impossible."""
    with contextlib.suppress(Exception):  # the error itself must be shown in any case
        failure = describe(error)
        board.note_record(asdict(failure))
        return failure
    return None


def _tell_ranks(failure: Failure | None) -> None:
    """Tell other ranks, and the log of a rank that has no launcher to do so."""
    if failure is None:
        return
    with contextlib.suppress(Exception):
        if board.has_launcher():
            _core.fail(str(failure))
            return
        rank, size = join.rank_and_size()
        cause = failure.cause_rank
        why = "" if cause is None else f", a consequence of rank {cause}"
        told = f"rank {rank} on {socket.gethostname()} has failed{why}: {failure}"
        if size > 1:
            sys.stderr.write(f"tarantella: {told}\n")
        join.tell_failure(told)
        _core.fail(str(failure))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those from which it was raised, the last one first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        context = None if error.__suppress_context__ else error.__context__
        error = error.__cause__ if error.__cause__ is not None else context


def _user_places(error: BaseException) -> Iterator[tuple[str, int]]:
    """Yield places outside Python's library, packages and Tarantella itself, the innermost first.

    Among them are the stack that TensorFlow tells in the message of an operation's error, and that
    of a traceback in a message.
    """
    before, exception = _printed(error)
    stack, _ = _operation(exception)
    if _TOLD_TRACEBACK in exception:
        stack += exception[exception.index(_TOLD_TRACEBACK) :]
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, line) for frame, line in frames]
    if isinstance(error, _Exit):  # before Python 3.12 it has no traceback yet
        places = error.places
    matches = map(_FRAME.fullmatch, before + stack)
    places += [(match["file"], int(match["line"])) for match in matches if match is not None]
    return (place for place in reversed(places) if is_of_users(place[0]))


def _printed(error: BaseException) -> tuple[list[str], list[str]]:
    """Return how Python shows an error: the place of wrong syntax; the lines from its class on."""
    lines = "".join(traceback.format_exception_only(error)).splitlines()
    begin = next((index for index, line in enumerate(lines) if line[:1] not in ("", " ")), 0)
    return lines[:begin], lines[begin:] or [""]


def _operation(exception: list[str]) -> tuple[list[str], str]:
    """Return stack and message of an operation as TensorFlow tells them, nothing of others."""
    for heading, pattern in _MESSAGES.items():
        if exception[0].endswith(heading):
            for index, line in enumerate(exception[1:], start=1):
                match = pattern.fullmatch(line)
                if match is not None:
                    return exception[1:index], match[1]
    return [], ""


def _message_in_layer(exception: list[str]) -> Iterator[str]:
    """Return the first line of a message in bold letters, and what that line announces."""
    bold = _BOLD.search("\n".join(exception))
    for line in filter(str.strip, bold[1].splitlines() if bold is not None else []):
        yield line.strip()
        if not line.rstrip().endswith(":"):
            return
