"""The last traceback that a rank has printed: all that is known of an error it has not told."""

# So it is with wrong syntax in a script, and with errors before it imports Tarantella.

from __future__ import annotations

import os
import re
from pathlib import Path

_HEADERS = (
    "Traceback (most recent call last):",
    "  + Exception Group Traceback (most recent call last):",
)
_GROUP_MARGIN = "  | "
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+)(?P<place>, in .*)?')
_BESIDE_THIS_PACKAGE = str(Path(__file__).parents[2])
_NOT_THE_USERS = re.compile(
    r"<frozen |__autograph_generated_file"
    r"|/(site|dist)-packages/|/lib(64)?/(python|pypy)3\.\d+/|/python3\.\d+\.zip/"
    r"|/packages/[\w-]+/src/(tnt_\w+|tarantella)/"
    rf"|^{re.escape(_BESIDE_THIS_PACKAGE)}/(tnt_(comm|data|keras|launch)|tarantella)/"
    r"|\.(pyx|pxd|pxi)$"  # libraries in Cython: their frames have no folder
)


def last_traceback(text: str) -> str:
    """Cut the last traceback, with what it was raised from, out of `text`, up to its end. Pure."""
    lines = text.splitlines()
    starts = [index for index, line in enumerate(lines) if line in _HEADERS]
    if not starts:
        return _syntax_error(lines)
    begin = starts.pop()
    while starts and any(line.startswith(_CHAIN) for line in lines[starts[-1] : begin]):
        begin = starts.pop()
    return "\n".join(lines[begin:])


def exception_line(traceback: str) -> str:
    """Return type and message of the exception, the first line of it if there are more. Pure."""
    return "".join(_cut(traceback)[1][:1])


def user_line(traceback: str, working_directory: str, script: str) -> str:
    """Find the line of the user's own code that failed, as `train.py:12`. Pure."""
    # The innermost frame outside Python's library, installed packages and Tarantella itself, be it
    # of an exception from which the last one was raised.
    matches = map(_FRAME.fullmatch, reversed(_cut(traceback)[0]))
    for match in filter(None, matches):
        if not _NOT_THE_USERS.search(match["file"]):
            return f"{relative(match['file'], working_directory)}:{match['line']}"
    return script


def relative(file: str, folder: str) -> str:
    """Return the path of a file from a folder, if it is in there. Pure."""
    return os.path.relpath(file, folder) if file.startswith(folder.rstrip("/") + "/") else file


def _cut(traceback: str) -> tuple[list[str], list[str]]:
    """Return the lines before the last exception, and the others."""
    lines = [line.removeprefix(_GROUP_MARGIN) for line in traceback.splitlines()]
    begin = max((index for index, line in enumerate(lines) if line in _HEADERS), default=-1) + 1
    for index, line in enumerate(lines[begin:], start=begin):
        # Below a call whose column it has lost, Python 3.11 marks the frame without indentation.
        if line.strip("^~ ") and not line.startswith(" "):
            return lines[:index], lines[index:]
    return lines, []


def _syntax_error(lines: list[str]) -> str:
    """Return the end of `lines` if it tells of a script that cannot be compiled: without header."""
    for begin, line in enumerate(lines):
        match = _FRAME.fullmatch(line)
        if match is not None and match["place"] is None:
            text = "\n".join(lines[begin:])
            if exception_line(text).partition(":")[0] in _SYNTAX_ERRORS:
                return text
    return ""
