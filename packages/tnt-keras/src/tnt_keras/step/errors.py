"""An error of earlier versions, which programs may name."""

from __future__ import annotations


class ProbeError(ValueError):
    """Was raised where results on several ranks would not be the serial ones; never raised now."""
