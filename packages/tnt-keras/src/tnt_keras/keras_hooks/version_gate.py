"""Private names of another package: found on the versions they were tested with, or a clear error.

A version that is not known is used with a warning if it has all the names, and refused if not.
That is found out when the first of them is needed: finding names neither fails nor logs.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from tnt_keras.process.output import logger


class VersionGate:
    """Find private names of one package, and refuse versions of it that lack them.

    `oldest` and `newest` are minor versions that the names were tested with. `warn` logs the
    warning of a newer version, where another package has more to say of it.
    """

    def __init__(
        self,
        package: str,
        requirement: str,
        oldest: tuple[int, int],
        newest: tuple[int, int],
        warn: Callable[[], None] | None = None,
    ) -> None:
        self._package = package
        self._requirement = requirement
        self._oldest = oldest
        self._newest = newest
        self._warn = warn
        self.missing: list[str] = []
        """The names that were looked for in vain."""

    def find(self, module: str, *names: str) -> Any:
        """Return a (nested) name of a private module, None if this version lacks it. Local."""
        try:
            found: Any = importlib.import_module(module)
            for name in names:
                found = getattr(found, name)
        except (ImportError, AttributeError):
            self.missing.append(".".join((module, *names)))
            return None
        return found

    def check(self, version: str) -> None:
        """Refuse a version that is not supported or lacks names; warn of one not known. Local."""
        tested = f"{_dotted(self._oldest)} to {_dotted(self._newest)}"
        major, minor = (int(number) for number in version.split(".")[:2])
        if not self._oldest <= (major, minor) < (self._oldest[0] + 1, 0):
            after = (self._newest[0], self._newest[1] + 1)
            raise ImportError(
                f"{self._package} {version} is not supported by tnt-keras, which was tested with "
                f"{self._package} {tested}: "
                f"`pip install '{self._requirement}>={_dotted(self._oldest)},<{_dotted(after)}'`."
            )
        if self.missing:
            raise ImportError(
                f"{self._package} {version} lacks {', '.join(self.missing)}, which tnt-keras "
                f"needs. It was tested with {self._package} {tested}: install one of these, or a "
                "newer tnt-keras."
            )
        if (major, minor) > self._newest:
            (self._warn or functools.partial(self._warn_of, version, tested))()

    def _warn_of(self, version: str, tested: str) -> None:
        logger.warning(
            "%s %s is newer than all versions that tnt-keras was tested with (%s).",
            self._package,
            version,
            tested,
        )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
