"""`tnt.callbacks`: on which ranks callbacks run, and with which logs."""

from __future__ import annotations

from tnt_keras.callbacks.ranks import Callback, run_on_master

__all__ = ["Callback", "run_on_master"]
