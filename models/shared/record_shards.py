"""Data sets in files such as `train-00000-of-01024`, of which none may be missing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_SHARD_NAME = re.compile(r"(.+)-\d+-of-(\d+)")


class ShardSet(NamedTuple):
    """What the names of all shards of a data set have in common.

    Attributes:
        prefix: Path up to the number of the shard.
        num_shards: That belong to it.
    """

    prefix: Path
    num_shards: int


def sets_of_shards(paths: Iterable[Path]) -> dict[ShardSet, list[Path]]:
    """Return the shards of each data set, in the order of `paths`; other files are left out. Pure.

    Args:
        paths: Of files.
    """
    sets = defaultdict(list)
    for path in paths:
        if match := _SHARD_NAME.fullmatch(path.name):
            sets[ShardSet(path.parent / match[1], int(match[2]))].append(path)
    return dict(sets)


def require_all_shards(shard_set: ShardSet, shards: list[Path]) -> None:
    """Refuse a data set of which files are missing, as after an interrupted copy. Pure.

    Args:
        shard_set: What its names say.
        shards: Its files.

    Raises:
        FileNotFoundError: If they are not as many as their names say.
    """
    if len(shards) != shard_set.num_shards:
        raise FileNotFoundError(
            f"{shards[0].parent} holds {len(shards)} of the {shard_set.num_shards} files of "
            f"{shards[0].name}: copy the others, too."
        )
