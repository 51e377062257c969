"""Read the variables of the environment; no other module of this package reads any value.

The launcher writes them; without it the defaults hold. All packages have one grammar of values.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import TypeVar

BLANKS = " \t\n\r\v\f"
"""What is ignored around a value."""

_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_AUTO = -1  # a fusion threshold that is to be measured
_DEFAULT_THRESHOLD_KB = 32
_LARGEST_INTEGER = 2**31 - 1
_WIRE_DTYPES = {"none": None, "bfloat16": "bfloat16", "float16": "float16"}
PROBES = ("error", "warn", "off")
"""What `TNT_PROBE` and `probe=` may say, though it has no effect any more."""

_LOG_LEVELS = {level: level for level in ("DEBUG", "INFO", "WARNING", "ERROR")}

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the environment says about this process; see the page "Environment variables"."""

    log_level: str = "WARNING"  # least level that is shown
    log_on_all_ranks: bool = False
    output_on_all_ranks: bool = False  # progress bars and summaries
    tensorboard_on_all_ranks: bool | None = None
    gpus_per_node: int | None = None  # those that ranks are to use
    fusion_threshold_bytes: int | None = 1024 * _DEFAULT_THRESHOLD_KB  # 0: off, None: measured
    wire_dtype: str | None = None  # of float32 gradients while they travel
    probe: str | None = None  # one of `PROBES`, without effect
    checks_steps: bool = False  # first steps, against serial ones
    explains_steps: bool = False  # show what steps exchange


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return what an environment says, or defaults; an error names what is malformed. Local."""
    threshold_kb = _threshold_kb(environment)
    boolean = _one_of(_BOOLEANS)
    return Settings(
        log_level=_read(environment, "TNT_LOG_LEVEL", _one_of(_LOG_LEVELS), "WARNING"),
        log_on_all_ranks=_read(environment, "TNT_LOG_ON_ALL_DEVICES", boolean, False),
        output_on_all_ranks=_read(environment, "TNT_OUTPUT_ON_ALL_DEVICES", boolean, False),
        tensorboard_on_all_ranks=_read(
            environment, "TNT_TENSORBOARD_ON_ALL_DEVICES", boolean, None
        ),
        gpus_per_node=_read(environment, "TNT_GPUS_PER_NODE", _natural, None),
        fusion_threshold_bytes=None if threshold_kb == _AUTO else 1024 * threshold_kb,
        wire_dtype=_read(environment, "TNT_WIRE_DTYPE", _one_of(_WIRE_DTYPES), None),
        probe=_read(environment, "TNT_PROBE", _one_of({word: word for word in PROBES}), None),
        checks_steps=_read(environment, "TNT_CHECK_STEPS", boolean, False),
        explains_steps=_read(environment, "TNT_EXPLAIN_STEPS", boolean, False),
    )


def is_started_by_launcher() -> bool:
    """Return whether this process was started as a rank of a job. Local."""
    return "TNT_RANK" in os.environ


def threads_of_operations(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return in how many threads TensorFlow runs an operation, None if it chooses. Local."""
    text = environment.get("TF_NUM_INTRAOP_THREADS", "").strip(BLANKS)
    return int(text) or None if text.isdecimal() else None


@functools.cache
def settings() -> Settings:
    """Return the settings of this process, read at the first call. Local."""
    return read_settings()


def _threshold_kb(environment: Mapping[str, str]) -> int:
    """Return the threshold, under either of its two names; `_AUTO` if it is to be measured."""
    own = _read(environment, "TNT_FUSION_THRESHOLD_KB", _threshold, None)
    original = _read(environment, "TNT_FUSION_THRESHOLD", _threshold, None)
    if own is not None and original is not None and own != original:
        names = {_AUTO: "auto"}
        raise ValueError(
            "TNT_FUSION_THRESHOLD_KB and TNT_FUSION_THRESHOLD are two names of one setting. "
            f"Received: {names.get(own, own)} and {names.get(original, original)}. "
            "Set one of them."
        )
    if own is not None:
        return own
    return _DEFAULT_THRESHOLD_KB if original is None else original


def _read(environment: Mapping[str, str], name: str, parse: Callable[[str], _T], default: _T) -> _T:
    text = environment.get(name)
    if text is None:
        return default
    try:
        return parse(text.strip(BLANKS))
    except ValueError as error:
        raise ValueError(
            f"The environment variable {name} must be {error}. Received: {text!r}. "
            "Correct it or unset it."
        ) from None


def _one_of(words: Mapping[str, _T]) -> Callable[[str], _T]:
    """Return what reads one of some words, of which the case does not count."""

    def parse(text: str) -> _T:
        for word, value in words.items():
            if text.lower() == word.lower():
                return value
        raise ValueError("one of " + ", ".join(words))

    return parse


def _natural(text: str) -> int | None:
    # `int` also takes signs, underscores, other digits
    if text.isascii() and text.isdigit() and len(text) <= 4000 and int(text) <= _LARGEST_INTEGER:
        return int(text)
    raise ValueError(f"a whole number that is not negative and at most {_LARGEST_INTEGER}")


def _threshold(text: str) -> int | None:
    if text.lower() == "auto":
        return _AUTO
    try:
        return _natural(text)
    except ValueError as error:
        raise ValueError(f"{error}, or auto") from None
