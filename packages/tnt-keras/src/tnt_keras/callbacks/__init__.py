"""`tnt.callbacks`: on which ranks callbacks run, and with which logs.

The other modules of this folder choose the callbacks of each rank, and add those that keep ranks in
lockstep or report.
"""

from __future__ import annotations

from tnt_keras.callbacks.wrapper import Callback
from tnt_keras.callbacks.writers import run_on_master

__all__ = ["Callback", "run_on_master"]
