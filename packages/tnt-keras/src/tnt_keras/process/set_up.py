"""Set up logging and check the devices when the first model is distributed, not at import."""

from __future__ import annotations

import functools
import os

from tnt_keras.process.devices import check_devices
from tnt_keras.process.environment import is_started_by_launcher, settings
from tnt_keras.process.former_probe import check_probe
from tnt_keras.process.log import set_up_logging
from tnt_keras.process.variable_names import warn_of_unknown_names


@functools.cache
def set_up_process() -> None:
    """Read the settings, set up logging and check the devices; once. Local.

    Raises:
        ValueError: If a variable of the environment is malformed; names it.
        RuntimeError: If a GPU is missing.
    """
    set_up_logging(settings())
    if not is_started_by_launcher():  # the launcher has warned already
        warn_of_unknown_names(os.environ)
    check_devices(settings())
    check_probe(settings().probe, "TNT_PROBE")
