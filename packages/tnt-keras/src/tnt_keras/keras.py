"""`tnt.keras`: names that the original Tarantella kept there."""

from __future__ import annotations

from typing import Any

from tnt_keras import callbacks, models
from tnt_keras.api.model import Model, Sequential
from tnt_keras.legacy.original_names import no_attribute

__all__ = ["Model", "Sequential", "callbacks", "models"]


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)
