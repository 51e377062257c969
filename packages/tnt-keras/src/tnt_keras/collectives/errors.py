"""Errors about what must be the same on all ranks; raised on all of them."""

from __future__ import annotations


class DifferentInputError(ValueError):
    """Ranks were given different arguments, models or data."""


class DifferentWeightsError(RuntimeError):
    """Ranks hold different weights."""
