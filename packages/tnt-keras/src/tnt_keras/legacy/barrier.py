"""`tnt.Barrier`: wait for the members of a group, with the names of the original Tarantella."""

from __future__ import annotations

import tnt_comm
from tnt_keras.calls.current_call import user_line


class Barrier:
    """Wait until all members of a group have come to the same point.

        tnt.Barrier().execute()

    Args:
        group: Whom to wait for; all ranks by default.

    Raises:
        TypeError: If `group` is something else.
    """

    def __init__(self, group: tnt_comm.Group | None = None) -> None:
        if group is not None and not isinstance(group, tnt_comm.Group):
            raise TypeError(f"`group` must be a `tnt.Group`. Received: {group!r}.")
        self._group = tnt_comm.Group() if group is None else group

    def execute(self) -> None:
        """Wait until all members have called it. Collective.

        Raises:
            tnt_comm.CommError: If a member is lost, late, or in another call.
        """
        self._group.barrier(label="Barrier", caller=user_line())
