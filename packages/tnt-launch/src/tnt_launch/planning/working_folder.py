"""The folder in which a command was given."""

from __future__ import annotations

import os

from tnt_launch.errors import LaunchError


def working_folder() -> str:
    """Return the absolute path of the folder of this process."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise LaunchError(
            "the folder in which this command was given has been deleted. Change to another one: "
            "cd FOLDER."
        ) from error
