"""The probe of earlier versions: what chose it is accepted, and has no effect."""

from __future__ import annotations

from tnt_keras.process.environment import PROBES
from tnt_keras.process.log import logger

_has_warned = False


class ProbeError(ValueError):
    """Was raised where results on several ranks would not be the serial ones; never raised now."""


def check_probe(probe: str | None, name: str = "probe=") -> None:
    """Warn once in a process that the probe is no more; refuse words that it never knew. Local."""
    if probe is None:
        return
    if probe not in PROBES:
        raise ValueError(f"`probe` must be one of {', '.join(PROBES)}. Received: probe={probe!r}.")
    global _has_warned
    if not _has_warned:
        _has_warned = True
        logger.warning(
            "%s has no effect: results on several ranks are those of the serial run for every "
            "step, so that there is nothing to prove.",
            name,
        )
