"""`tnt.print`: what is the same on all ranks is printed once."""

from __future__ import annotations

import builtins
from typing import Any

from tnt_keras.process.verbosity import is_shown


def print(*values: Any, **options: Any) -> None:
    """Print on the master rank, or on all ranks with `--output-on-all-devices`. Local.

    Args:
        *values: As for Python's `print`.
        **options: As for Python's `print`.
    """
    if is_shown():
        builtins.print(*values, **options)
