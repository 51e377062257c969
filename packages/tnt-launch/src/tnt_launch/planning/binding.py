"""Which CPUs and memory each rank of a host is kept on, and how many threads that gives it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tnt_launch.errors import LaunchError
from tnt_launch.numbers import format_ranges
from tnt_launch.planning.cpus import Cpu
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.spec import LaunchSpec

_PINNING = "--pin-to-socket and --pin-memory-to-socket"


@dataclass(frozen=True)
class Binding:
    """What a rank is kept on."""

    place: str = "not bound"  # in words, for `--report-bindings`
    # those that the launcher itself keeps it on, ascending; empty for all
    cpus: tuple[int, ...] = ()
    prefix: tuple[str, ...] = ()  # words in front of its command, which keep it somewhere instead
    threads: int | None = None  # that have a core each; `None` leaves the number to TensorFlow


@dataclass(frozen=True)
class HostBinding:
    """What the ranks of a host are kept on."""

    ranks: tuple[Binding, ...]
    warning: str = ""


def bind(spec: LaunchSpec, host: HostFacts, local_size: int, uses_gpus: bool) -> HostBinding:
    """Choose what each rank of a host is kept on. Pure."""
    share = max(1, host.num_cores // local_size)
    if spec.pin_to_socket or spec.pin_memory_to_socket:
        return _pin(spec, host, local_size, share)
    near, why = _near_gpus(host, local_size) if uses_gpus else ([], "")
    if spec.bind_to is not None:
        choice, why = spec.bind_to, ""
    elif uses_gpus:
        choice, why = _default_near_gpus(host, near, why)
    else:
        choice = _default(host, local_size)
    if choice == "none":
        place = f"not bound ({why})" if why else "not bound"
        return HostBinding((replace(_unbound(local_size, share), place=place),) * local_size)
    sets = _sets(choice, host, local_size, near)
    threads = min(share, *_cores_of_each(sets))
    return HostBinding(
        tuple(
            Binding(_place(cpus), tuple(cpu.number for cpu in cpus), threads=threads)
            for cpus in sets
        )
    )


def _sets(
    choice: str, host: HostFacts, local_size: int, near: Sequence[tuple[Cpu, ...]]
) -> list[tuple[Cpu, ...]]:
    """Return the CPUs of each rank, those near its GPU if that is known."""
    if choice == "core":
        return _blocks_near(host, near) if near else _blocks_of_cores(host, local_size)
    groups = _grouped(host.cpus, by_node=choice == "numa")
    if near:  # all CPUs of a socket if one of its CPUs is near
        return [next(group for group in groups if cpus[0] in group) for cpus in near]
    return [groups[rank * len(groups) // local_size] for rank in range(local_size)]


def _near_gpus(host: HostFacts, local_size: int) -> tuple[list[tuple[Cpu, ...]], str]:
    """Return the CPUs near the GPU of each rank; none, and why, if that is not known of all."""
    sets = []
    for gpu in host.gpus[:local_size]:
        if gpu.node < 0:
            return [], f"it is not known which NUMA node is near {gpu.words()}"
        cpus = tuple(cpu for cpu in host.cpus if cpu.node == gpu.node)
        if not cpus:
            return [], f"no CPU near {gpu.words()} may be used"
        sets.append(cpus)
    return sets, ""


def _default_near_gpus(
    host: HostFacts, near: Sequence[tuple[Cpu, ...]], why: str
) -> tuple[str, str]:
    """Return what ranks with GPUs are kept on, or `"none"`, and if nothing why in words."""
    # Nothing narrower than a node, for the reasons below; ranks whose GPUs are near the same node
    # share its cores. A rank that would lose more than half of its share of the host, since few
    # cores are near its GPU, loses more by that than by the longer way to the GPU.
    if _has_quota(host) or len(_grouped(host.cpus, by_node=True)) < 2:
        return "none", ""
    if not near:
        return "none", why
    fair = len(_cores(host.cpus)) // len(near)
    if 2 * min(_cores_of_each(near)) < fair:
        return "none", "fewer than half of a rank's share of the cores are near its GPU"
    return "numa", ""


def _default(host: HostFacts, local_size: int) -> str:
    # Memory of another node is slow, and every node is to get the same work. Nothing narrower is a
    # default, and nothing at all on one node: two jobs on a host know nothing of each other and
    # would take the same cores, while others stay idle. A container with a quota of CPU time shares
    # its cores in the same way.
    nodes = _grouped(host.cpus, by_node=True)
    if _has_quota(host) or len(nodes) < 2 or local_size % len(nodes) != 0:
        return "none"
    return "numa" if len({len(_cores(node)) for node in nodes}) == 1 else "none"


def _has_quota(host: HostFacts) -> bool:
    return host.num_cores < len(host.cpus)


def _unbound(local_size: int, share: int) -> Binding:
    # Several ranks with a thread per core each would take turns on the cores. One rank alone
    # keeps what TensorFlow chooses.
    return Binding(threads=share if local_size > 1 else None)


def _blocks_of_cores(host: HostFacts, local_size: int) -> list[tuple[Cpu, ...]]:
    """Divide the physical cores in blocks, which stay on one node where that is possible."""
    num_cores = len(_cores(host.cpus))
    if local_size > num_cores:
        raise LaunchError(
            f"--bind-to core needs a physical core for each rank, but {host.host} has "
            f"{num_cores} for {local_size} ranks. Give -n {num_cores} or less, or --bind-to numa."
        )
    return _blocks(host.cpus, local_size)


def _blocks_near(host: HostFacts, near: Sequence[tuple[Cpu, ...]]) -> list[tuple[Cpu, ...]]:
    """Divide the physical cores of each node among the ranks whose GPUs are near it."""
    blocks = {}
    for cpus, count in Counter(near).items():
        num_cores = len(_cores(cpus))
        if count > num_cores:
            raise LaunchError(
                f"--bind-to core needs a physical core for each rank, but {host.host} has "
                f"{num_cores} on NUMA node {cpus[0].node}, which is near the GPUs of {count} "
                "ranks. Give a smaller -n, or --bind-to numa."
            )
        blocks[cpus] = iter(_blocks(cpus, count))
    return [next(blocks[cpus]) for cpus in near]


def _blocks(cpus: Iterable[Cpu], count: int) -> list[tuple[Cpu, ...]]:
    """Divide CPUs in `count` blocks of whole cores, of which there are as many or more."""
    cores: dict[int, list[Cpu]] = {}
    for cpu in sorted(cpus, key=lambda cpu: (cpu.node, cpu.package, cpu.core)):
        cores.setdefault(cpu.core, []).append(cpu)
    ordered = list(cores.values())
    begins = [rank * len(ordered) // count for rank in range(count + 1)]
    return [
        tuple(sorted(cpu for core in ordered[begins[rank] : begins[rank + 1]] for cpu in core))
        for rank in range(count)
    ]


def _pin(spec: LaunchSpec, host: HostFacts, local_size: int, share: int) -> HostBinding:
    """Give local rank r the NUMA node r, as numactl does it."""
    nodes = _grouped(host.cpus, by_node=True)
    if not host.has_numactl:
        raise LaunchError(
            f"{_PINNING} need the program numactl, which {host.host} does not have. Install the "
            f"package numactl there, or give --bind-to numa, which needs none."
        )
    if local_size > len(nodes):
        raise LaunchError(
            f"{_PINNING} give each rank a NUMA node of its own, but {host.host} has "
            f"{len(nodes)} for {local_size} ranks. Give -n {len(nodes)} or less, or --bind-to numa."
        )
    unbound = _unbound(local_size, share)
    bindings = []
    for cpus in nodes[:local_size]:
        node = cpus[0].node
        memory = f"--membind={node}" if spec.pin_memory_to_socket else f"--preferred={node}"
        binding = replace(unbound, place=f"memory of NUMA node {node}", prefix=("numactl", memory))
        if spec.pin_to_socket:
            # The node alone would widen what this process is limited to, by taskset say.
            numbers = format_ranges([cpu.number for cpu in cpus])
            cores = (f"--cpunodebind={node}", f"--physcpubind={numbers}")
            binding = Binding(
                _place(cpus),
                prefix=("numactl", *cores, memory),
                threads=min(share, len(_cores(cpus))),
            )
        bindings.append(binding)
    idle = len(nodes) - local_size
    warning = (
        f"{host.host} has {len(nodes)} NUMA nodes, of which {idle} stay idle: {_PINNING} give "
        f"each rank one. Give -n {len(nodes)} to use all. [idle-numa-nodes]"
    )
    return HostBinding(tuple(bindings), warning if idle else "")


def _grouped(cpus: Iterable[Cpu], by_node: bool) -> list[tuple[Cpu, ...]]:
    """Return the CPUs of each NUMA node, or of each package, in the order of their numbers."""
    groups: dict[int, list[Cpu]] = {}
    for cpu in cpus:
        groups.setdefault(cpu.node if by_node else cpu.package, []).append(cpu)
    return [tuple(sorted(groups[key])) for key in sorted(groups)]


def _cores(cpus: Iterable[Cpu]) -> set[int]:
    return {cpu.core for cpu in cpus}


def _cores_of_each(sets: Sequence[tuple[Cpu, ...]]) -> list[int]:
    """Return the physical cores for each rank; ranks with the same CPUs share them."""
    sharing = Counter(sets)
    return [max(1, len(_cores(cpus)) // sharing[cpus]) for cpus in sets]


def _place(cpus: Sequence[Cpu]) -> str:
    nodes = {cpu.node for cpu in cpus}
    noun = "NUMA node" if len(nodes) == 1 else "NUMA nodes"
    numbers = format_ranges([cpu.number for cpu in cpus])
    return f"cpus {numbers} ({noun} {format_ranges(nodes)})"
