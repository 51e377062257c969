"""The variables `TNT_*` that matter before ranks meet; C++ reads all, and refuses wrong ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

_TIMEOUT_S, _REPORT_S = 600.0, 30.0
_QUIET = ("ERROR",)


@dataclass(frozen=True)
class Settings:
    """What a user says about the start."""

    timeout_s: float  # longest wait for other ranks
    report_s: float  # until a wait for other ranks is told
    secret: str  # by which ranks know each other, if the user has given one
    transport: str  # how ranks are to exchange data
    shows_warnings: bool  # whether they are wanted


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return what an environment says. Pure."""
    return Settings(
        timeout_s=_seconds(environment.get("TNT_TIMEOUT_S"), _TIMEOUT_S),
        report_s=_seconds(environment.get("TNT_STALL_S"), _REPORT_S),
        secret=environment.get("TNT_JOB_SECRET", "").strip(),
        transport=environment.get("TNT_TRANSPORT", "auto").strip().lower(),
        shows_warnings=environment.get("TNT_LOG_LEVEL", "").strip().upper() not in _QUIET,
    )


def _seconds(text: str | None, default: float) -> float:
    """Return a number of seconds; what is none is refused later, when the job is joined."""
    try:
        number = float(text) if text is not None else default
    except ValueError:
        return default
    return number if math.isfinite(number) and number > 0 else default
