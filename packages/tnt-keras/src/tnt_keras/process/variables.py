# Written by tools/write_environment.py from environment.toml.
# The grammar is a copy of that of tnt-launch.
"""How values of `TNT_*` variables are written; below is their table.

All packages have one grammar, and `tests/contract` asks each of them value by value:

- Blanks around a value are ignored. A blank value is malformed, unless the kind says otherwise.
- Integers are ASCII digits only: no sign, no underscore, no 0x. The largest is 2147483647.
- Seconds are decimal numbers, with or without an exponent, finite and greater than 0.
- Booleans and words may be written in any case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

_T = TypeVar("_T")
_Default = TypeVar("_Default")

PREFIX = "TNT_"  # what the names of all variables begin with
BLANKS = " \t\n\r\v\f"  # as C++ knows them; Python's own `strip` removes more

_LARGEST_INTEGER = 2**31 - 1
_SECONDS = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGER = re.compile("[0-9]{1,4000}")  # Python refuses to read more than 4300 digits
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_SECRET = "TNT_JOB_SECRET"  # its value is in no message
# Variables that the original's tutorials let users set for their own command lines.
_OF_TUTORIALS = ("TNT_MODELS_PATH", "TNT_DATASETS_PATH")
_REMOVED = {"TNT_PROBE": " Unset it: every step gives the serial result."}


class Kind(Generic[_T]):
    """How the values of a variable are written."""

    rule: str  # what a value must be, in words

    def read(self, text: str) -> _T:
        """Return the value that `text` means. Raise ValueError with the rule if it has none."""
        value = self.find(text)
        if value is None:
            raise ValueError(f"it must be {self.rule}")
        return value

    def find(self, text: str) -> _T | None:
        """Return the value that `text` means, `None` if it has none."""
        return self._parse(text.strip(BLANKS))

    def _parse(self, word: str) -> _T | None:
        raise NotImplementedError

    def write(self, value: _T) -> str:
        """Return the canonical text of a value, which every package accepts."""
        return str(value)


@dataclass(frozen=True)
class Integer(Kind[int]):
    """Whole numbers from `minimum` to `maximum`."""

    minimum: int = 0
    maximum: int = _LARGEST_INTEGER

    @property
    def rule(self) -> str:  # type: ignore[override]
        """What a value must be, in words."""
        if self.maximum == _LARGEST_INTEGER:
            return f"an integer of at least {self.minimum} and at most {self.maximum}"
        return f"an integer from {self.minimum} to {self.maximum}"

    def _parse(self, word: str) -> int | None:
        is_inside = _INTEGER.fullmatch(word) and self.minimum <= int(word) <= self.maximum
        return int(word) if is_inside else None


class IntegerOrAuto(Kind[int | Literal["auto"]]):
    """Whole numbers of at least 0, or the word `auto`."""

    rule = "an integer of at least 0, or auto"

    def _parse(self, word: str) -> int | Literal["auto"] | None:
        return "auto" if word.lower() == "auto" else Integer().find(word)


class Seconds(Kind[float]):
    """Durations in seconds, finite and greater than 0."""

    rule = "a number of seconds greater than 0"

    def _parse(self, word: str) -> float | None:
        value = float(word) if _SECONDS.fullmatch(word) else math.nan
        return value if math.isfinite(value) and value > 0 else None

    def write(self, value: float) -> str:
        """Return the shortest text that means `value`. Pure."""
        return repr(float(value)).removesuffix(".0")


class Boolean(Kind[bool]):
    """Yes or no, as one of eight words in any case."""

    rule = "one of 1/true/yes/on or 0/false/no/off"

    def _parse(self, word: str) -> bool | None:
        return _BOOLEANS.get(word.lower())

    def write(self, value: bool) -> str:
        """Return `1` or `0`. Pure."""
        return str(int(value))


@dataclass(frozen=True)
class Word(Kind[str]):
    """One of some words, in any case."""

    words: tuple[str, ...]

    @property
    def rule(self) -> str:  # type: ignore[override]
        """What a value must be, in words."""
        return f"one of {', '.join(self.words)}"

    def _parse(self, word: str) -> str | None:
        lower = word.lower() if word.isascii() else ""
        return next((one for one in self.words if one.lower() == lower), None)


@dataclass(frozen=True)
class Path(Kind[str]):
    """The path of a file."""

    may_be_blank: bool = False
    rule = "the path of a file"

    def _parse(self, word: str) -> str | None:
        return word if word or self.may_be_blank else None


@dataclass(frozen=True)
class Variable(Generic[_T, _Default]):
    """A variable that a user may set."""

    name: str
    kind: Kind[_T]
    default: _Default  # what holds where it is not set; `None` if that is not a value

    def read(self, text: str) -> _T:
        """Return the value that `text` means; a ValueError names the variable. Pure."""
        value = self.kind.find(text)
        if value is None:
            received = "" if self.name == _SECRET else f" Received: {text!r}."
            raise ValueError(
                f"{self.name} must be {self.kind.rule}.{received} Correct it or unset it."
            )
        return value

    def find(self, environment: Mapping[str, str]) -> _T | _Default:
        """Return the value that an environment has, or the default. Pure."""
        text = environment.get(self.name)
        return self.default if text is None else self.read(text)


def warnings_of_unknown(names: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each `TNT_*` name that nothing reads, with one that resembles it."""
    for name in sorted({*names}.difference(known, _OF_TUTORIALS)):
        if name.startswith(PREFIX):
            hint = _REMOVED.get(name) or _suggestion(name, known)
            yield (
                f"{name} is not a variable of Tarantella and has no effect on it.{hint} "
                "[unknown-variable]"
            )


def _suggestion(name: str, known: Sequence[str]) -> str:
    import difflib  # rarely needed

    # All names resemble each other by their prefix, so it is left out of the comparison.
    words = [one.removeprefix(PREFIX) for one in known]
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), words, n=1, cutoff=0.6)
    return f" Did you mean {PREFIX}{nearest[0]}?" if nearest else ""


# fmt: off
# ruff: noqa: E501

GRACE_S = Variable("TNT_GRACE_S", Seconds(), 20)
FUSION_THRESHOLD_KB = Variable("TNT_FUSION_THRESHOLD_KB", IntegerOrAuto(), 32)
FUSION_THRESHOLD = Variable("TNT_FUSION_THRESHOLD", IntegerOrAuto(), None)
WIRE_DTYPE = Variable("TNT_WIRE_DTYPE", Word(("none", "bfloat16", "float16")), "none")
CHECK_STEPS = Variable("TNT_CHECK_STEPS", Boolean(), False)
EXPLAIN_STEPS = Variable("TNT_EXPLAIN_STEPS", Boolean(), False)
LANES = Variable("TNT_LANES", Integer(minimum=1), None)
STEP_HASHES = Variable("TNT_STEP_HASHES", Path(), None)
MOVE_WEIGHTS = Variable("TNT_MOVE_WEIGHTS", Boolean(), False)
LOG_LEVEL = Variable("TNT_LOG_LEVEL", Word(("DEBUG", "INFO", "WARNING", "ERROR")), "WARNING")
LOG_ON_ALL_DEVICES = Variable("TNT_LOG_ON_ALL_DEVICES", Boolean(), False)
OUTPUT_ON_ALL_DEVICES = Variable("TNT_OUTPUT_ON_ALL_DEVICES", Boolean(), False)
TENSORBOARD_ON_ALL_DEVICES = Variable("TNT_TENSORBOARD_ON_ALL_DEVICES", Boolean(), None)
GPUS_PER_NODE = Variable("TNT_GPUS_PER_NODE", Integer(), None)
NUM_THREADS = Variable("TNT_NUM_THREADS", Integer(minimum=1), None)

# What describes a rank belongs to the launcher: what it finds there is replaced.
JOB_VARIABLES = ("TNT_RANK", "TNT_SIZE", "TNT_LOCAL_RANK", "TNT_LOCAL_SIZE", "TNT_NODE_RANK", "TNT_NUM_NODES", "TNT_JOB_ID", "TNT_RESTART_COUNT", "TNT_SCHEDULER_JOB", "TNT_RANK_PROCESS")
ALL_NAMES = (*JOB_VARIABLES, "TNT_TRANSPORT", "TNT_TIMEOUT_S", "TNT_GRACE_S", "TNT_STALL_S", "TNT_STALL_REPORT_S", "TNT_ALLREDUCE_ALGORITHM", "TNT_SUM_TREE", "TNT_GPI2_LIBRARY", "TNT_GPI2_PORT", "TNT_UCX_LIBRARY", "TNT_UCX_RDMA", "TNT_CUDA_LIBRARY", "TNT_GPU_SUMS", "TNT_RENDEZVOUS", "TNT_JOB_SECRET", "TNT_INTERFACE", "TNT_FUSION_THRESHOLD_KB", "TNT_FUSION_THRESHOLD", "TNT_WIRE_DTYPE", "TNT_CHECK_STEPS", "TNT_EXPLAIN_STEPS", "TNT_LANES", "TNT_STEP_HASHES", "TNT_MOVE_WEIGHTS", "TNT_TIMELINE", "TNT_LOG_LEVEL", "TNT_LOG_ON_ALL_DEVICES", "TNT_OUTPUT_ON_ALL_DEVICES", "TNT_TENSORBOARD_ON_ALL_DEVICES", "TNT_GPUS_PER_NODE", "TNT_NUM_THREADS")
