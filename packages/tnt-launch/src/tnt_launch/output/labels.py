"""What stands before the lines of ranks: `[3]` on one host, `[3@alpha]` on several."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tnt_launch.number_ranges import format_ranges

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # all but red, black and white
LISTED = 3
"""Ranks that are listed one by one; more are written as ranges."""


class Labels:
    """Labels of the ranks of a job."""

    def __init__(self, hosts: Mapping[int, str], *, is_coloured: bool = False) -> None:
        self._hosts = hosts if len(set(hosts.values())) > 1 else {}
        self._is_coloured = is_coloured

    def of(self, ranks: Sequence[int]) -> bytes:
        """Return the label, with a blank, of lines that ranks have written, ascending. Pure."""
        hosts = {self._hosts[rank] for rank in ranks if rank in self._hosts}
        numbers = ",".join(map(str, ranks)) if len(ranks) <= LISTED else format_ranges(ranks)
        # Ranks of several hosts are told by their numbers alone.
        label = f"[{numbers}{'@' + hosts.pop() if len(hosts) == 1 else ''}]"
        if self._is_coloured and len(ranks) == 1:
            label = f"\x1b[{_COLOURS[ranks[0] % len(_COLOURS)]}m{label}\x1b[0m"
        return f"{label} ".encode()


def is_coloured(fd: int, environment: Mapping[str, str]) -> bool:
    """Return whether to write colours to a descriptor: a terminal whose user has not refused."""
    has_colours = environment.get("TERM", "dumb") != "dumb" and not environment.get("NO_COLOR")
    return has_colours and os.isatty(fd)
