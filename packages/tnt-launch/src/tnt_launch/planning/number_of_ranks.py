"""How many ranks a host gets, and on which kind of device they run."""

from __future__ import annotations

from dataclasses import dataclass

from tnt_launch.errors import LaunchError
from tnt_launch.planning.spec import MAX_RANKS_PER_NODE


@dataclass(frozen=True)
class RankChoice:
    """The outcome of `choose_ranks`.

    Attributes:
        per_node: Ranks on each host.
        gpus_per_node: GPUs used on each host, 0 if the ranks run on CPUs.
        warning: What the user should know, or an empty string.
        note: What may interest the user, or an empty string.
    """

    per_node: int
    gpus_per_node: int
    warning: str = ""
    note: str = ""


def choose_ranks(allow_gpus: bool, asked: int | None, num_gpus: int) -> RankChoice:
    """Decide how many ranks run on a host. Pure.

    | GPUs allowed | ranks asked for | GPUs   | ranks per host | device |
    |--------------|-----------------|--------|----------------|--------|
    | yes          | -               | G > 0  | G              | GPU    |
    | yes          | -               | 0      | 1              | CPU, with a note    |
    | yes          | p               | 0      | p              | CPU, with a note    |
    | yes          | p               | G >= p | p              | GPU    |
    | yes          | p               | G < p  | p              | CPU, with a warning |
    | no           | -               | any    | 1              | CPU    |
    | no           | p               | any    | p              | CPU    |

    Args:
        allow_gpus: Whether GPUs may be used.
        asked: Ranks per host that the user asked for, or `None`.
        num_gpus: GPUs that a process on the host would see.

    Raises:
        LaunchError: If there are more GPUs than a host may have ranks and `asked` is `None`.
    """
    if not allow_gpus:
        return RankChoice(asked or 1, 0)
    if num_gpus == 0:
        per_node = asked or 1
        where = "one rank runs on the CPU" if per_node == 1 else f"{per_node} ranks run on CPUs"
        return RankChoice(per_node, 0, note=f"no GPU found: {where}")
    per_node = num_gpus if asked is None else asked
    if per_node > MAX_RANKS_PER_NODE:
        raise LaunchError(f"{num_gpus} GPUs found: give -n N with N <= {MAX_RANKS_PER_NODE}.")
    if num_gpus >= per_node:
        return RankChoice(per_node, per_node)
    return RankChoice(
        per_node,
        0,
        warning=f"only {num_gpus} GPU{'s' * (num_gpus > 1)} found for {per_node} ranks: all ranks "
        f"run on CPUs. Give --no-gpu if this is what you want.",
    )
