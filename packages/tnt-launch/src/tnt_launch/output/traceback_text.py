"""Python tracebacks as ranks print them: the last one, its exception, the user's own line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_HEADER = "Traceback (most recent call last):"
# Of an exception group: its own lines have a margin, those of its members a wider one.
_GROUP_HEADER, _GROUP_MARGIN = f"  + Exception Group {_HEADER}", "  | "
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
_FRAME = re.compile(r'(?:  )?  File "(?P<file>.*)", line (?P<line>\d+)(, in .*)?')
# Headings of TensorFlow's, below which the stack of an operation precedes the message.
_IN_GRAPH, _IN_TRACED_FUNCTION = ": Graph execution error:", ": in user code:"
_MESSAGES = {
    _IN_GRAPH: re.compile(
        r"(?:  \(0\) )?(?!Detected at node |<stack traces |Node: |\d+ root error)([^\s(].*)"
    ),
    _IN_TRACED_FUNCTION: re.compile(r'    (?!File ")(\S.*)'),
}
# What Keras puts before the message of an error in a layer, which it then shows in bold letters.
_IN_LAYER = re.compile(r"(?:[\w.]+: )?Exception encountered when calling .*\.")
_BOLD = re.compile(r"\x1b\[1m(.*?)\x1b\[0m", re.DOTALL)
_NOT_THE_USERS = re.compile(
    r"<frozen |__autograph_generated_file"
    r"|/(site|dist)-packages/|/lib(64)?/(python|pypy)3\.\d+/|/python3\.\d+\.zip/"
    r"|/tnt_(comm|data|keras|launch)/|/src/tarantella/"
    r"|\.(pyx|pxd|pxi)$"  # libraries in Cython: their frames have no folder
)


def last_traceback(text: str) -> str:
    """Cut the last traceback, with what it was raised from, out of `text`, up to its end. Pure."""
    lines = text.splitlines()
    starts = [index for index, line in enumerate(lines) if line in (_HEADER, _GROUP_HEADER)]
    if not starts:
        return _syntax_error(lines)
    begin = starts.pop()
    while starts and any(line.startswith(_CHAIN) for line in lines[starts[-1] : begin]):
        begin = starts.pop()
    return "\n".join(lines[begin:])


def exception_line(traceback: str) -> str:
    """Return type and message of the exception, the first line of it if there are more. Pure."""
    # Where TensorFlow puts a heading and the stack of an operation before the message, these are
    # left out. Where Keras names a layer before the message, that is one line with it.
    *_, last = ([], *_parts(traceback))
    exception = last[_number_of_frame_lines(last) :]
    line = "".join(exception[:1])
    _, message = _operation(exception)
    if message and line.endswith(_IN_GRAPH):
        return f"{line.removesuffix(_IN_GRAPH)}: {message}"
    line = message or line
    if _IN_LAYER.fullmatch(line):
        return " ".join([line, *_message_in_layer(exception)])
    return line


def user_line(traceback: str, working_directory: str, script: str) -> str:
    """Find the line of the user's own code that failed, as `train.py:12`. Pure."""
    # That is the innermost frame outside Python's library, installed packages and Tarantella
    # itself, be it in the stack that TensorFlow tells in the message of an operation's error.
    # Exceptions from which the last one was raised are looked at if that one has no such frame.
    for part in reversed(list(_parts(traceback))):
        for file, line in reversed(_frames(part)):
            if not _NOT_THE_USERS.search(file):
                return f"{_relative(file, working_directory)}:{line}"
    return script


def _parts(traceback: str) -> Iterator[list[str]]:
    """Cut a chain into its tracebacks, the last exception last."""
    part: list[str] = []
    for line in map(_without_group, traceback.splitlines()):
        if line == _HEADER and part:
            yield part
            part = []
        part.append(line)
    if part:
        yield part


def _without_group(line: str) -> str:
    return _HEADER if line == _GROUP_HEADER else line.removeprefix(_GROUP_MARGIN)


def _frames(part: list[str]) -> list[tuple[str, str]]:
    """List file and line of every frame; what an exception's message looks like is no frame."""
    end = _number_of_frame_lines(part)
    stack, _ = _operation(part[end:])
    matches = map(_FRAME.fullmatch, part[:end] + stack)
    return [(match["file"], match["line"]) for match in matches if match is not None]


def _operation(exception: list[str]) -> tuple[list[str], str]:
    """Return stack and message of an operation as TensorFlow tells them, nothing of others."""
    for heading, pattern in _MESSAGES.items():
        if exception and exception[0].endswith(heading):
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


def _number_of_frame_lines(part: list[str]) -> int:
    """Return how many lines come before the exception."""
    return next((index for index, line in enumerate(part) if _is_exception(line)), len(part))


def _is_exception(line: str) -> bool:
    # Below a call of which it has lost the column, Python 3.11 marks the frame without indentation.
    is_mark = not line.strip("^~ ")
    return line != _HEADER and line[:1] != " " and not is_mark


def _syntax_error(lines: list[str]) -> str:
    """Return the end of `lines` if it tells of a script that cannot be compiled: without header."""
    for begin, line in enumerate(lines):
        match = _FRAME.fullmatch(line)
        if match is not None and match[3] is None:
            text = "\n".join(lines[begin:])
            if exception_line(text).partition(":")[0] in _SYNTAX_ERRORS:
                return text
    return ""


def _relative(file: str, folder: str) -> str:
    return os.path.relpath(file, folder) if file.startswith(folder.rstrip("/") + "/") else file
