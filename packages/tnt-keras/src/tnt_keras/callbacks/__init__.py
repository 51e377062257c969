"""`tnt.callbacks`: on which ranks callbacks run, and with which logs."""

from __future__ import annotations

from tnt_keras.callbacks.wrapper import Callback
from tnt_keras.callbacks.writers import run_on_master

__all__ = ["Callback", "run_on_master"]
