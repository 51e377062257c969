"""The table of all `TNT_*` variables: name, kind with its limits, and the packages that read it.

Every package follows this one grammar, and `tests/contract` asks each of them value by value:

- Blanks around a value are ignored. A blank value is malformed, unless the kind says otherwise.
- Integers are ASCII digits only: no sign, no underscore, no 0x. The largest is 2147483647.
- Seconds are decimal numbers, with or without an exponent, finite and greater than 0.
- Booleans and words may be written in any case.

The same list is on the reference page "Environment variables".
"""

from __future__ import annotations

import math
import os
import re
import string
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from tnt_launch.errors import LaunchError

_T = TypeVar("_T")

_INTEGER = re.compile("[0-9]{1,4000}")  # Python refuses to read more than 4300 digits
_LARGEST_INTEGER = 2**31 - 1
_SECONDS = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_HOST_AND_PORT = re.compile(r"(\[[^\]\s]+\]|[^:\[\]\s]+):(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65535
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class Kind(Protocol[_T]):
    """How the values of a variable are written."""

    def read(self, text: str) -> _T:
        """Return the value that `text` means. Raise ValueError with the rule if it has none."""

    def write(self, value: _T) -> str:
        """Return the canonical text of a value, which every package accepts."""


class _AsWritten:
    def write(self, value: object) -> str:
        """Return the value as text. Pure."""
        return str(value)


@dataclass(frozen=True)
class Integer(_AsWritten):
    """Whole numbers from `minimum` to `maximum`, by default to the largest that is read at all."""

    minimum: int
    maximum: int | None = None

    @property
    def rule(self) -> str:
        """What a value must be, in words."""
        if self.maximum is None:
            return f"an integer of at least {self.minimum}"
        return f"an integer from {self.minimum} to {self.maximum}"

    def read(self, text: str) -> int:
        """Return the number that `text` means, or raise ValueError. Pure."""
        word = _strip(text)
        value = int(word) if _INTEGER.fullmatch(word) else self.minimum - 1
        if value < self.minimum or (self.maximum is not None and value > self.maximum):
            raise ValueError(f"it must be {self.rule}")
        if value > _LARGEST_INTEGER:
            raise ValueError(f"it must be {self.rule} and at most {_LARGEST_INTEGER}")
        return value


@dataclass(frozen=True)
class IntegerOrAuto(_AsWritten):
    """Whole numbers of at least `minimum`, or the word `auto`."""

    minimum: int

    def read(self, text: str) -> int | Literal["auto"]:
        """Return the number or `"auto"`, or raise ValueError. Pure."""
        if _strip(text).lower() == "auto":
            return "auto"
        try:
            return Integer(self.minimum).read(text)
        except ValueError as error:
            raise ValueError(f"{error}, or auto") from None


@dataclass(frozen=True)
class Seconds:
    """Durations in seconds, finite and greater than 0."""

    def read(self, text: str) -> float:
        """Return the number of seconds that `text` means, or raise ValueError. Pure."""
        word = _strip(text)
        value = float(word) if _SECONDS.fullmatch(word) else math.nan
        if not (math.isfinite(value) and value > 0):
            raise ValueError("it must be a number of seconds greater than 0")
        return value

    def write(self, value: float) -> str:
        """Return the shortest text that means `value`. Pure."""
        return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True)
class Boolean:
    """Yes or no, as one of eight words in any case."""

    def read(self, text: str) -> bool:
        """Return what the word means, or raise ValueError. Pure."""
        word = _strip(text).lower()
        if word not in _TRUE + _FALSE:
            raise ValueError("it must be one of 1/true/yes/on or 0/false/no/off")
        return word in _TRUE

    def write(self, value: bool) -> str:
        """Return `1` or `0`. Pure."""
        return str(int(value))


@dataclass(frozen=True)
class Word(_AsWritten):
    """One of a list of words, in any case."""

    choices: tuple[str, ...]

    def read(self, text: str) -> str:
        """Return the word as `choices` spells it, or raise ValueError. Pure."""
        word = _strip(text)
        for choice in self.choices:
            if word.isascii() and word.lower() == choice.lower():
                return choice
        raise ValueError(f"it must be one of {', '.join(self.choices)}")


@dataclass(frozen=True)
class Path(_AsWritten):
    """The path of a file."""

    may_be_blank: bool = False

    def read(self, text: str) -> str:
        """Return the path without blanks around it, or raise ValueError. Pure."""
        path = _strip(text)
        if not (path or self.may_be_blank):
            raise ValueError("it must be the path of a file")
        return path


@dataclass(frozen=True)
class Text(_AsWritten):
    """Any text of at least `least_bytes` bytes."""

    least_bytes: int = 0

    def read(self, text: str) -> str:
        """Return the text without blanks around it, or raise ValueError. Pure."""
        stripped = _strip(text)
        if len(os.fsencode(stripped)) < self.least_bytes:
            raise ValueError(f"it must have {self.least_bytes} characters or more")
        return stripped


@dataclass(frozen=True)
class HostAndPort(_AsWritten):
    """`host:port`, or `[address]:port` for IPv6."""

    def read(self, text: str) -> str:
        """Return the text without blanks around it, or raise ValueError. Pure."""
        stripped = _strip(text)
        found = _HOST_AND_PORT.fullmatch(stripped)
        if found is None or not 1 <= int(found["port"]) <= _LARGEST_PORT:
            raise ValueError("it must be host:port, or [address]:port for IPv6")
        return stripped


_SECRET = "TNT_JOB_SECRET"  # its value is in no message


@dataclass(frozen=True)
class Variable(Generic[_T]):
    """A variable that a user may set."""

    name: str
    kind: Kind[_T]
    readers: tuple[str, ...] = ()  # packages that read it

    def read(self, text: str) -> _T:
        """Return the value that `text` means; a LaunchError names the variable. Pure."""
        try:
            return self.kind.read(text)
        except ValueError as error:
            received = "" if self.name == _SECRET else f" Received: {text!r}."
            raise LaunchError(
                f"the variable {self.name} is malformed: {error}.{received} "
                f"Correct it or remove it from the environment."
            ) from None


PREFIX = "TNT_"  # what the names of all variables begin with

_COMM, _KERAS, _LAUNCH = "tnt-comm", "tnt-keras", "tnt-launch"

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
WIRE_DTYPES = ("none", "bfloat16", "float16")
PROBES = ("error", "warn", "off")
TRANSPORTS = ("auto", "shm", "gpi2", "ucx")
RDMA_USES = ("auto", "on", "off")
ALGORITHMS = ("auto", "one_shot", "two_shot", "recursive_doubling", "halving_doubling", "pipelined")

TRANSPORT = Variable("TNT_TRANSPORT", Word(TRANSPORTS), (_COMM,))
TIMEOUT_S = Variable("TNT_TIMEOUT_S", Seconds(), (_COMM,))
STALL_S = Variable("TNT_STALL_S", Seconds(), (_COMM,))
STALL_REPORT_S = Variable("TNT_STALL_REPORT_S", Seconds(), (_COMM,))  # its former name
ALLREDUCE_ALGORITHM = Variable("TNT_ALLREDUCE_ALGORITHM", Word(ALGORITHMS), (_COMM,))
GPI2_LIBRARY = Variable("TNT_GPI2_LIBRARY", Path(may_be_blank=True), (_COMM,))
GPI2_PORT = Variable("TNT_GPI2_PORT", Integer(1024, 64511), (_COMM,))  # the first of 1024
UCX_LIBRARY = Variable("TNT_UCX_LIBRARY", Path(may_be_blank=True), (_COMM,))
UCX_RDMA = Variable("TNT_UCX_RDMA", Word(RDMA_USES), (_COMM,))
RENDEZVOUS = Variable("TNT_RENDEZVOUS", HostAndPort(), (_COMM,))
JOB_SECRET = Variable(_SECRET, Text(16), (_COMM,))
INTERFACE = Variable("TNT_INTERFACE", Text(), (_COMM,))
FUSION_THRESHOLD_KB = Variable("TNT_FUSION_THRESHOLD_KB", IntegerOrAuto(0), (_KERAS,))
FUSION_THRESHOLD = Variable("TNT_FUSION_THRESHOLD", IntegerOrAuto(0), (_KERAS,))
WIRE_DTYPE = Variable("TNT_WIRE_DTYPE", Word(WIRE_DTYPES), (_KERAS,))
PROBE = Variable("TNT_PROBE", Word(PROBES), (_KERAS,))
CHECK_STEPS = Variable("TNT_CHECK_STEPS", Boolean(), (_KERAS,))
EXPLAIN_STEPS = Variable("TNT_EXPLAIN_STEPS", Boolean(), (_KERAS,))
TIMELINE = Variable("TNT_TIMELINE", Path(), (_COMM,))
LOG_LEVEL = Variable("TNT_LOG_LEVEL", Word(LOG_LEVELS), (_COMM, _KERAS, _LAUNCH))
LOG_ON_ALL_DEVICES = Variable("TNT_LOG_ON_ALL_DEVICES", Boolean(), (_KERAS,))
OUTPUT_ON_ALL_DEVICES = Variable("TNT_OUTPUT_ON_ALL_DEVICES", Boolean(), (_KERAS, _LAUNCH))
TENSORBOARD_ON_ALL_DEVICES = Variable("TNT_TENSORBOARD_ON_ALL_DEVICES", Boolean(), (_KERAS,))
GPUS_PER_NODE = Variable("TNT_GPUS_PER_NODE", Integer(0), (_KERAS, _LAUNCH))
NUM_THREADS = Variable("TNT_NUM_THREADS", Integer(1), (_LAUNCH,))

USER_VARIABLES: tuple[Variable[Any], ...] = tuple(
    one for one in globals().values() if isinstance(one, Variable)
)  # every variable that a user may set
JOB_VARIABLES = (
    "TNT_RANK",
    "TNT_SIZE",
    "TNT_LOCAL_RANK",
    "TNT_LOCAL_SIZE",
    "TNT_NODE_RANK",
    "TNT_NUM_NODES",
    "TNT_JOB_ID",
)  # variables that describe a rank. They belong to the launcher: what it finds there is replaced

# Every `TNT_*` variable that a rank may find: those of the job always, the others if set.
ALL_NAMES = (*JOB_VARIABLES, *(variable.name for variable in USER_VARIABLES))


def _strip(text: str) -> str:
    """Remove blanks as C++ knows them; Python's own `strip` removes more."""
    return text.strip(string.whitespace)


# Variables that the original's tutorials let users set for their own command lines.
NAMES_OF_TUTORIALS = ("TNT_MODELS_PATH", "TNT_DATASETS_PATH")
