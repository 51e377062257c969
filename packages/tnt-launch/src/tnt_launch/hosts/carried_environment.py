"""Which variables of the launcher the ranks of other hosts get."""

from __future__ import annotations

from collections.abc import Mapping

# They describe a host, a login or a terminal, and another host has its own.
_OF_THE_HOST = {
    "_",
    *("HOME", "LOGNAME", "MAIL", "SHELL", "USER", "USERNAME"),
    *("HOST", "HOSTNAME"),
    *("OLDPWD", "PWD", "SHLVL"),
    *("TEMP", "TMP", "TMPDIR"),
    *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "WINDOWID"),
}
_PREFIXES_OF_THE_HOST = ("SSH_", "XDG_")


def carried_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are the same on all hosts; `-x NAME` carries others. Pure."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _OF_THE_HOST and not name.startswith(_PREFIXES_OF_THE_HOST)
    }
