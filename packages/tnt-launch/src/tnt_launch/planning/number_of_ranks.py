"""How many ranks each host gets, and on which kind of device they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tnt_launch.errors import LaunchError
from tnt_launch.numbers import counted, listed
from tnt_launch.planning.hosts import MAX_RANKS_PER_NODE, HostSlots


@dataclass(frozen=True)
class JobRanks:
    """How many ranks the hosts of a job get."""

    per_host: tuple[int, ...]  # in the order of the hosts, each at least 1
    uses_gpus: bool
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def choose_ranks(
    allow_gpus: bool, asked: int | None, num_gpus: int, gpu_list: str = ""
) -> JobRanks:
    """Decide how many ranks run on a host; a list, as NAME=VALUE, may have left out GPUs. Pure.

    | GPUs allowed | ranks asked for | GPUs   | ranks per host | device |
    |--------------|-----------------|--------|----------------|--------|
    | yes          | -               | G > 0  | G              | GPU    |
    | yes          | -               | 0      | 1              | CPU, with a note    |
    | yes          | p               | 0      | p              | CPU, with a note    |
    | yes          | p               | G >= p | p              | GPU    |
    | yes          | p               | G < p  | p              | CPU, with a warning |
    | no           | -               | any    | 1              | CPU    |
    | no           | p               | any    | p              | CPU    |
    """
    if not allow_gpus:
        return JobRanks((asked or 1,), False)
    if num_gpus == 0:
        per_node = asked or 1
        where = "one rank runs on the CPU" if per_node == 1 else f"{per_node} ranks run on CPUs"
        why = f" by {gpu_list}" if gpu_list else ""
        return JobRanks((per_node,), False, notes=(f"no GPU found{why}: {where}",))
    per_node = num_gpus if asked is None else asked
    if per_node > MAX_RANKS_PER_NODE:
        raise LaunchError(f"{num_gpus} GPUs found: give -n N with N <= {MAX_RANKS_PER_NODE}.")
    if num_gpus >= per_node:
        return JobRanks((per_node,), True)
    found = f"only {counted(num_gpus, 'GPU')} found"
    how_to_get = ""
    if gpu_list:
        found += f" by {gpu_list}"
        how_to_get = f"Give -n {num_gpus}, or list a GPU for each rank. "
    warning = (
        f"{found} for {per_node} ranks: all ranks run on CPUs. {how_to_get}Give --no-gpu if this "
        "is what you want. [fewer-gpus]"
    )
    return JobRanks((per_node,), False, (warning,))


def ranks_of_hosts(
    hosts: Sequence[HostSlots], allow_gpus: bool, asked: int | None, num_gpus: Sequence[int]
) -> JobRanks:
    """Decide how many ranks run on each of several hosts, by the rules of `choose_ranks`. Pure."""
    # A number that was asked for is that of every host; without it a host gets as many ranks as it
    # has slots, and one that states none gets one rank for each GPU, or one. All ranks of a job run
    # on the same kind of device: if one host has fewer GPUs than ranks, all run on CPUs.
    _check_slots(hosts, asked)
    choices = [
        choose_ranks(allow_gpus, asked if asked is not None else host.slots, count)
        for host, count in zip(hosts, num_gpus, strict=True)
    ]
    per_host = tuple(choice.per_host[0] for choice in choices)
    short = [
        f"{host.name} ({count} for {choice.per_host[0]})"
        for host, choice, count in zip(hosts, choices, num_gpus, strict=True)
        if not choice.uses_gpus
    ]
    of_gpus = ""
    if allow_gpus and short and any(num_gpus):
        of_gpus = (
            f"fewer GPUs than ranks on {listed(short)}: all ranks run on CPUs. Give --no-gpu if "
            f"this is what you want. [fewer-gpus]"
        )
    note = "no GPU found: all ranks run on CPUs" if allow_gpus and not any(num_gpus) else ""
    return JobRanks(
        per_host,
        not short,
        tuple(filter(None, [of_gpus, _uneven(per_host)])),
        tuple(filter(None, [note])),
    )


def _check_slots(hosts: Sequence[HostSlots], asked: int | None) -> None:
    for host in hosts:
        if asked is not None and host.slots is not None and host.slots < asked:
            raise LaunchError(
                f"-n {asked} asks for more ranks than the {host.slots} slots of the host "
                f"{host.name!r}. Give a smaller -n, or none for as many ranks as slots."
            )


def _uneven(per_host: Sequence[int]) -> str:
    """Tell what hosts with unequal numbers of ranks mean, see "Algorithms" in the docs."""
    fewest, most = min(per_host), max(per_host)
    if fewest == most:
        return ""
    return (
        f"the hosts have between {fewest} and {most} ranks, so gradients cannot be summed in the "
        "shared memory of each host first: every rank sends its own over the network, which is "
        "slower. Give every host the same number of ranks, with -n or slots. [not-hierarchical]"
    )
