"""How steps compute, as the user wants it."""

from __future__ import annotations

import dataclasses
from typing import Any

from tnt_keras.process.environment import settings

BATCH_NORMS = ("local", "global")
DRAWS = ("serial", "local")


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How steps compute, as for `tnt.Model`."""

    fuses_batch_norm: bool = True
    batch_norm: str = "local"
    draws: str = "serial"
    check: bool = False


def default_options(**given: Any) -> StepOptions:
    """Return the options where some are given. Local."""
    return StepOptions(**{"check": settings().checks_steps, **given})


def given_options(
    fused_batch_norm: bool | None, batch_norm: str | None, draws: str | None, check: bool | None
) -> dict[str, Any]:
    """Return the attributes of `StepOptions` that a user has given, of words that exist. Local."""
    for name, value, words in (("batch_norm", batch_norm, BATCH_NORMS), ("draws", draws, DRAWS)):
        if value is not None and value not in words:
            raise ValueError(
                f"`{name}` must be one of {', '.join(words)}. Received: {name}={value!r}."
            )
    given = {
        "fuses_batch_norm": fused_batch_norm,
        "batch_norm": batch_norm,
        "draws": draws,
        "check": check,
    }
    return {name: value for name, value in given.items() if value is not None}
