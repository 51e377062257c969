"""What a non-blocking collective returns."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from tnt_comm import _core
from tnt_comm.arrays import Array, timeout_or_default

Result = TypeVar("Result")


class Ticket(Generic[Result]):
    """A collective in flight, from the `start_...` methods of `Group`.

    The arrays involved must not be changed, and an `out` array not be read,
    until `wait` has returned or `is_done` is true. They are kept alive until
    then, even if the ticket is dropped.

    Thread-safe.
    """

    def __init__(
        self,
        core: _core.Request,
        arrays: tuple[Array, ...],
        make_result: Callable[[_core.Request], Result],
    ) -> None:
        self._core = core
        self._arrays = arrays
        self._make_result = make_result
        self._results: list[Result] = []
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if not self._core.is_done():
            _abandoned.keep(self._core, self._arrays)

    def is_done(self) -> bool:
        """Return whether `wait` would return, or raise, at once. Never blocks. Local."""
        return self._core.is_done()

    def wait(self, timeout_s: float | None = None) -> Result:
        """Wait until the collective is complete. May be called again. Collective.

        Args:
            timeout_s: Longest wait in seconds, by default `TNT_TIMEOUT_S`.
                When it passes, the group is broken.

        Returns:
            What the blocking form of the collective returns.

        Raises:
            CommTimeoutError: If the wait takes too long.
            PeerLostError: If a member of the group has ended.
            MismatchError: If the members did not make the same call.
        """
        self._core.wait(timeout_or_default(timeout_s))
        with self._lock:
            if not self._results:
                self._results.append(self._make_result(self._core))
                self._arrays = ()
        return self._results[0]


class _Abandoned:
    """Arrays that the core may still use although their ticket is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[_core.Request, tuple[Array, ...]]] = []

    def keep(self, core: _core.Request, arrays: tuple[Array, ...]) -> None:
        """Keep the arrays until the collective is done. Local."""
        with self._lock:
            self._kept = [kept for kept in self._kept if not kept[0].is_done()]
            self._kept.append((core, arrays))


_abandoned = _Abandoned()
