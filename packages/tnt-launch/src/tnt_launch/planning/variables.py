"""The `TNT_*` variables that a user may set: their kinds, and a check that names what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

from tnt_launch.errors import LaunchError

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
WIRE_DTYPES = ("none", "bfloat16", "float16")

ALGORITHMS = (
    "auto",
    "direct",
    "sliced",
    "recursive_doubling",
    "halving_doubling",
    "pipelined",
)

JOB_VARIABLES = (
    "TNT_RANK",
    "TNT_SIZE",
    "TNT_LOCAL_RANK",
    "TNT_LOCAL_SIZE",
    "TNT_NODE_RANK",
    "TNT_NUM_NODES",
    "TNT_JOB_ID",
)
"""Variables that describe a rank. They belong to the launcher: what it finds there is replaced."""

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def parse_bool(text: str) -> bool:
    """Read a boolean variable, any case. Pure.

    Raises:
        ValueError: If `text` is none of the eight words.
    """
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise ValueError("it must be one of 1/true/yes/on or 0/false/no/off")
    return word in _TRUE


def parse_level(text: str) -> str:
    """Read the name of a log level, any case. Pure.

    Raises:
        ValueError: If there is no such level.
    """
    if text.strip().upper() not in LOG_LEVELS:
        raise ValueError(f"it must be one of {', '.join(LOG_LEVELS)}")
    return text.strip().upper()


def integer_from(minimum: int) -> Callable[[str], int]:
    """Make a reader for integers of at least `minimum`. Pure."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise ValueError(f"it must be an integer of at least {minimum}")
        return value

    return parse


def parse_threshold(text: str) -> int | Literal["auto"]:
    """Read a fusion threshold: KiB, or `auto`. Pure.

    Raises:
        ValueError: If `text` is neither.
    """
    if text.strip().lower() == "auto":
        return "auto"
    try:
        return integer_from(0)(text)
    except ValueError as error:
        raise ValueError(f"{error}, or auto") from None


def parse_wire_dtype(text: str) -> str:
    """Read the name of a wire dtype, any case. Pure.

    Raises:
        ValueError: If there is no such dtype.
    """
    if text.strip().lower() not in WIRE_DTYPES:
        raise ValueError(f"it must be one of {', '.join(WIRE_DTYPES)}")
    return text.strip().lower()


def parse_seconds(text: str) -> float:
    """Read a duration in seconds, greater than 0. Pure.

    Raises:
        ValueError: If `text` is not a finite number greater than 0.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError("it must be a number of seconds greater than 0")
    return value


def _parse_transport(text: str) -> str:
    if text not in ("auto", "shm", "gpi2"):
        raise ValueError("it must be one of auto, shm, gpi2")
    return text


def _parse_algorithm(text: str) -> str:
    if text not in ALGORITHMS:
        raise ValueError(f"it must be one of {', '.join(ALGORITHMS)}")
    return text


def _parse_path(text: str) -> str:
    if not text:
        raise ValueError("it must be the path of a file")
    return text


USER_VARIABLES: dict[str, Callable[[str], object]] = {
    "TNT_TRANSPORT": _parse_transport,
    "TNT_ALLREDUCE_ALGORITHM": _parse_algorithm,
    "TNT_GPI2_LIBRARY": str,
    "TNT_GPI2_PORT": integer_from(1024),
    "TNT_TIMEOUT_S": parse_seconds,
    "TNT_STALL_REPORT_S": parse_seconds,
    "TNT_TIMELINE": _parse_path,
    "TNT_FUSION_THRESHOLD_KB": parse_threshold,
    "TNT_FUSION_THRESHOLD": parse_threshold,
    "TNT_WIRE_DTYPE": parse_wire_dtype,
    "TNT_LOG_LEVEL": parse_level,
    "TNT_LOG_ON_ALL_DEVICES": parse_bool,
    "TNT_OUTPUT_ON_ALL_DEVICES": parse_bool,
    "TNT_TENSORBOARD_ON_ALL_DEVICES": parse_bool,
    "TNT_GPUS_PER_NODE": integer_from(0),
    "TNT_NUM_THREADS": integer_from(1),
}
"""Variables that a user may set, each with the reader that accepts its values."""


def check_variables(values: Mapping[str, str]) -> None:
    """Check every known variable in `values`; others are not ours to judge. Pure.

    Raises:
        LaunchError: If one is malformed, or the two names of the fusion threshold disagree.
    """
    for name, parse in USER_VARIABLES.items():
        if name in values:
            try:
                parse(values[name])
            except ValueError as error:
                raise LaunchError(
                    f"the variable {name} is malformed: {error}. Received: {values[name]!r}. "
                    f"Correct it or remove it from the environment."
                ) from None
    threshold, alias = values.get("TNT_FUSION_THRESHOLD_KB"), values.get("TNT_FUSION_THRESHOLD")
    has_both = threshold is not None and alias is not None
    if has_both and parse_threshold(str(threshold)) != parse_threshold(str(alias)):
        raise LaunchError(
            f"TNT_FUSION_THRESHOLD_KB={threshold} and TNT_FUSION_THRESHOLD={alias} are two names "
            f"of one setting and disagree. Remove one of them."
        )
