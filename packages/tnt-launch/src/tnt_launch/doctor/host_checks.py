"""The checks of a host: facts become findings, by pure functions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tnt_launch.doctor.facts import Fact
from tnt_launch.doctor.gpu_checks import SUMS, check_devices, check_gpus, describe_gpus
from tnt_launch.doctor.report import Finding, Status
from tnt_launch.errors import LaunchError
from tnt_launch.numbers import bytes_text, counted, rate_text, seconds_text
from tnt_launch.planning.addresses import OwnAddress, address_on

_COMPARISONS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([\da-z.]+)\s*")
_RELEASE = ("release", 0)  # above "a", "b" and "rc"
_VERSION = re.compile(r"(\d+(?:\.\d+)*)(?:(a|b|rc)(\d+))?")
# The packages of Tarantella.
PARTS = ("tarantella", "tnt-comm", "tnt-data", "tnt-keras", "tnt-launch")

_MISSING = "not installed"


def is_allowed(version: str, required: str) -> bool:
    """Return whether a version is in a range such as `>=3.8,<4`; other forms allow all. Pure."""
    clauses = map(_CLAUSE.fullmatch, required.split(",") if required.strip() else ())
    own, own_mark = _parts(version)
    for clause in clauses:
        if clause is None:
            continue
        bound, bound_mark = _parts(clause[2])
        size = max(len(own), len(bound))
        # A candidate of what is excluded is excluded as well.
        mark = bound_mark if clause[1] == "<" else own_mark
        pair = (_padded(own, size), mark), (_padded(bound, size), bound_mark)
        if not _COMPARISONS[clause[1]](*pair):
            return False
    return True


def _parts(version: str) -> tuple[list[int], tuple[str, int]]:
    """Return the numbers of a version, and what marks a candidate: less than that of a release."""
    found = _VERSION.match(version)
    if found is None:
        return [], _RELEASE
    numbers = [int(word) for word in found[1].split(".")]
    return numbers, (found[2], int(found[3])) if found[2] else _RELEASE


def _padded(numbers: list[int], size: int) -> list[int]:
    return numbers + [0] * (size - len(numbers))


def check_python(facts: Mapping[str, Any]) -> Finding:
    """Say whether a Python is supported. Pure."""
    version, required = facts["version"], facts["required"]
    text = f"{version}, {facts['path']}"
    if is_allowed(version, required):
        return Finding("ok", "Python", text)
    text = f"{text}; supported is {required}"
    remedy = (
        "Create an environment with one of these Python versions, and install tarantella into it."
    )
    return Finding("problem", "Python", text, remedy)


def check_packages(facts: Mapping[str, Any]) -> Finding:
    """Say whether all packages of Tarantella are there and fit each other. Pure."""
    installed, required = facts["installed"], facts["required"]
    missing = [part for part in PARTS if installed[part] == _MISSING]
    if missing:
        text = f"not installed: {', '.join(missing)}"
        remedy = "Install all packages of tarantella into this environment, as its README says."
        return Finding("problem", "packages", text, remedy)
    unfit = [
        f"{part} {installed[part]} needs {name}{versions}, not {installed[name]}"
        for part in PARTS
        for name, versions in required[part].items()
        if name in PARTS and not is_allowed(installed[name], versions)
    ]
    if unfit:
        text = "; ".join(unfit)
        remedy = "Reinstall all packages of tarantella from one release."
        return Finding("problem", "packages", text, remedy)
    return Finding("ok", "packages", ", ".join(f"{part} {installed[part]}" for part in PARTS))


def check_tensorflow(facts: Mapping[str, Any], packages: Mapping[str, Any]) -> Finding:
    """Say whether a TensorFlow that was imported is supported. Pure."""
    text = f"{facts['version']}, imported in {facts['seconds']:.1f} s"
    return _supported("TensorFlow", "tensorflow", facts["version"], text, packages)


def check_keras(facts: Mapping[str, Any], packages: Mapping[str, Any]) -> Finding:
    """Say whether a Keras that was imported is supported. Pure."""
    if facts["backend"] != "tensorflow":
        text = f"{facts['version']}, with the backend {facts['backend']}"
        remedy = "Set KERAS_BACKEND=tensorflow, or correct ~/.keras/keras.json."
        return Finding("problem", "Keras", text, remedy)
    return _supported("Keras", "keras", facts["version"], facts["version"], packages)


def check_operations(facts: Mapping[str, Any]) -> Finding:
    """Say that the operations of tnt-keras were loaded. Pure."""
    return Finding("ok", "operations", "the library of tnt-keras fits TensorFlow and tnt-comm")


def _supported(
    check: str, package: str, version: str, text: str, packages: Mapping[str, Any]
) -> Finding:
    required = packages["required"]["tnt-keras"].get(package, "")
    if is_allowed(version, required):
        return Finding("ok", check, text)
    text = f"{text}; supported is {required}"
    remedy = f'Run `pip install "{package}{required}"`.'
    return Finding("problem", check, text, remedy)


# Containers have 64 MiB unless they are given more.
_LITTLE_MEMORY, _FAIR_MEMORY = 64 << 20, 256 << 20

# What GPI-2 needs: some 40 and three for each rank of the job. Python and TensorFlow have theirs.
_FILES, _FILES_OF_A_RANK = 200, 3
_FAIR_FILES = 1024

# A rank with TensorFlow has some threads for each core, and some tens besides.
_THREADS, _THREADS_OF_A_CORE = 64, 4


def check_cores(facts: Mapping[str, Any], num_ranks: int) -> Iterator[Finding]:
    """Say how many cores there are for the ranks, and how they lie. Pure."""
    usable = facts["usable"]
    cpus, cores = counted(facts["cpus"], "CPU"), counted(facts["cores"], "core")
    text = f"{cpus} on {cores}, {counted(facts['nodes'], 'NUMA node')}"
    if usable < facts["cpus"]:
        text += f", but the time of only {counted(usable, 'CPU')} (quota of the container)"
    if min(usable, facts["cores"]) < num_ranks:
        few = f"{text}, for {counted(num_ranks, 'rank')}"
        yield Finding("note", "cores", few, "Ranks that share a core are slow: give a smaller -n.")
    else:
        yield Finding("ok", "cores", text)
    yield _check_numactl(facts)


def _check_numactl(facts: Mapping[str, Any]) -> Finding:
    if facts["has_numactl"]:
        return Finding("ok", "numactl", "found")
    if facts["nodes"] == 1:
        return Finding("ok", "numactl", "not found, not needed on one NUMA node")
    remedy = (
        "Only --pin-to-socket and --pin-memory-to-socket need it: install the package numactl, or "
        "give --bind-to numa."
    )
    return Finding("note", "numactl", "not found", remedy)


def check_shared_memory(facts: Mapping[str, Any]) -> Finding:
    """Say whether the ranks of a host can exchange data through its memory. Pure."""
    check = "shared memory"
    if "why" in facts:
        text = f"/dev/shm cannot be used: {facts['why']}"
        remedy = "Mount a tmpfs at /dev/shm that all users can write to and that is not full."
        return Finding("problem", check, text, remedy)
    free, total = facts["free"], facts["total"]
    text = f"{bytes_text(free)} of {bytes_text(total)} free in /dev/shm"
    if free >= _FAIR_MEMORY:
        return Finding("ok", check, text)
    status: Status = "problem" if free < _LITTLE_MEMORY else "note"
    remedy = (
        "Remove what ended jobs have left there, or make it larger: `mount -o remount,size=2G "
        "/dev/shm`; for a container `docker run --shm-size=2g`."
    )
    return Finding(status, check, text, remedy)


def check_limits(
    facts: Mapping[str, Any], cores: int, num_ranks: int, size: int, has_infiniband: bool
) -> Finding:
    """Say whether a limit of the shell may be met. Pure."""
    files, processes = facts["open_files"], facts["processes"]
    memory = facts["locked_memory"]
    text = (
        f"open files {_limit(files)}, processes and threads {_limit(processes)}, locked memory "
        f"{'unlimited' if memory is None else bytes_text(memory)}"
    )
    least_files = _FILES + _FILES_OF_A_RANK * size
    if files is not None and files < least_files:
        return _raise_limit("problem", text, "n", max(_FAIR_FILES, least_files))
    # Nothing of it holds for root.
    threads = num_ranks * (_THREADS + _THREADS_OF_A_CORE * cores)
    if processes is not None and processes < threads and not facts["is_root"]:
        return _raise_limit("problem", text, "u", threads)
    if files is not None and files < _FAIR_FILES:
        return _raise_limit("note", text, "n", _FAIR_FILES)
    if memory is not None and has_infiniband:
        return _raise_limit("note", text, "l", "unlimited")
    return Finding("ok", "limits", text)


def _raise_limit(status: Status, text: str, letter: str, least: int | str) -> Finding:
    remedy = (
        f"Raise it with `ulimit -{letter} {least}`; the maximum is set in "
        "/etc/security/limits.conf."
    )
    return Finding(status, "limits", text, remedy)


def _limit(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)


def check_networks(facts: Mapping[str, Any], interface: str) -> Finding:
    """Say which networks a host has, and whether that of `--interface` is one. Pure."""
    own = tuple(OwnAddress(*words) for words in facts["addresses"])
    outside = [f"{one.interface} {one.address}" for one in own if not one.is_loopback]
    text = ", ".join([*outside, *(f"InfiniBand {name}" for name in facts["infiniband"])])
    try:
        if interface:
            address_on("", own, interface)
    except LaunchError:
        text = f"{text or 'none'}; none of them is {interface}"
        remedy = "Name one of these interfaces or addresses, or a network of one, with --interface."
        return Finding("problem", "networks", text, remedy)
    return Finding("ok", "networks", text or "none besides this host")


# Words for the engines that `TNT_TRANSPORT` names.
ENGINES = {"shm": "shared memory", "gpi2": "GPI-2", "ucx": "UCX"}

_ENGINE_REMEDIES = {
    "shm": "Look at the lines on shared memory and limits, and at the message.",
    "gpi2": "Look at the message; `tarantella -n 2 -x TNT_TRANSPORT=gpi2 -- SCRIPT` shows more.",
    "ucx": "Look at the message; `tarantella -n 2 -x TNT_TRANSPORT=ucx -- SCRIPT` shows more.",
}
_HOW_TO_GET = {
    "gpi2": "Jobs on several hosts need GPI-2 or UCX: build GPI-2 as its README says and set "
    "TNT_GPI2_LIBRARY to the path of its libGPI2.so.",
    "ucx": 'Jobs on several hosts need GPI-2 or UCX: run `pip install "tarantella[cluster]"`, or '
    "set TNT_UCX_LIBRARY to the path of a libucp.so.0.",
}


def check_engine(facts: Mapping[str, Any]) -> Finding:
    """Say what came of a sum between processes through an engine. Pure."""
    engine = facts["engine"]
    check = check_of(engine)
    if "why" in facts:
        # How tnt-comm begins if it has looked everywhere, and nobody has named a library.
        if facts["why"].startswith(f"No {ENGINES[engine]} library was found"):
            return Finding("note", check, "not found", _HOW_TO_GET[engine])
        return check_failed_engine(engine, facts["why"])
    if not facts["is_right"]:
        text = f"the sum of {facts['size']} processes is wrong"
        remedy = "Do not use it, and report what `tarantella doctor` shows."
        return Finding("problem", check, text, remedy)
    text = (
        f"{library_text(facts['library'])}sum of {facts['size']} processes: "
        f"{seconds_text(facts['latency_s'])}, {rate_text(facts['bytes_per_s'])}"
    )
    return Finding("ok", check, text)


def check_failed_engine(engine: str, why: str) -> Finding:
    """Say that the test of an engine has failed. Pure."""
    return Finding("problem", check_of(engine), why, _ENGINE_REMEDIES[engine])


def check_of(engine: str) -> str:
    """Return the first column of an engine's line. Pure."""
    return "sum in memory" if engine == "shm" else ENGINES[engine]


def library_text(library: Mapping[str, Any] | None) -> str:
    """Say which library was found where, with a comma behind it; nothing for none. Pure."""
    if library is None:
        return ""
    network = f" for {library['network']}" if library["network"] else ""
    return f"{library['version']}{network}, {library['path']}, "


_Values = Mapping[str, Any]

_ENGINE = "engine "
_REMEDIES = {
    "TensorFlow": "Reinstall it with `pip install --force-reinstall tensorflow`; an illegal "
    "instruction (SIGILL) means that it was built for newer processors.",
    "Keras": "Reinstall it with `pip install --force-reinstall keras`.",
    "operations": "Reinstall tnt-comm and tnt-keras from one release, and a TensorFlow that they "
    "support.",
    SUMS: "Look at the message, and check the driver of the GPUs with nvidia-smi.",
    "hardware": "Correct the variable or the driver that the message names.",
}


class HostChecks:
    """Makes findings of the facts of one host, in their order; some checks need several facts."""

    def __init__(self, asked: int | None, num_hosts: int, interface: str) -> None:
        self.known: dict[str, _Values] = {}  # values of the last fact about each thing
        self.checking = ""  # the check that has begun last
        self.asked, self.num_hosts, self.interface = asked, num_hosts, interface

    def take(self, fact: Fact) -> Iterable[Finding]:
        """Return what follows from one more fact."""
        if fact.about == "begin":
            self.checking = fact.values["check"]
            return ()
        self.known[fact.about] = fact.values
        return [found for check in CHECKS.get(fact.about, ()) for found in check(self, fact.values)]

    def fail(self, why: str) -> Iterable[Finding]:
        """Return what follows if the process that tells the facts has failed."""
        return self.take(Fact("failure", {"check": self.checking or "start", "why": why}))


def _limits(host: HostChecks, cores: _Values) -> Iterator[Finding]:
    if "limits" in host.known:
        ranks = host.asked or 1
        has_infiniband = bool(host.known.get("networks", {}).get("infiniband"))
        limits = host.known["limits"]
        yield check_limits(limits, cores["cpus"], ranks, ranks * host.num_hosts, has_infiniband)


def _gpus(host: HostChecks, tensorflow: _Values | None) -> Iterator[Finding]:
    if "gpus" in host.known:
        num_devices = len(host.known.get("devices", {}).get("devices", ()))
        yield check_gpus(host.known["gpus"], tensorflow, host.asked, num_devices)


def _devices(host: HostChecks, devices: _Values) -> Iterable[Finding]:
    return check_devices(devices, len(host.known.get("gpus", {}).get("gpus", ())))


def _failure(host: HostChecks, values: _Values) -> Iterator[Finding]:
    check, why = values["check"], values["why"]
    if check.startswith(_ENGINE):
        yield check_failed_engine(check.removeprefix(_ENGINE), why)
        return
    remedy = _REMEDIES.get(check, "Look at the message, and report it if it says nothing.")
    yield Finding("problem", check, why, remedy)
    if check == "TensorFlow":
        yield from _gpus(host, None)


CHECKS: dict[str, tuple[Callable[[HostChecks, _Values], Iterable[Finding]], ...]] = {
    "python": (lambda host, values: [check_python(values)],),
    "packages": (lambda host, values: [check_packages(values)],),
    "networks": (lambda host, values: [check_networks(values, host.interface)],),
    "cores": (lambda host, values: check_cores(values, host.asked or 1), _limits),
    "gpus": (lambda host, values: describe_gpus(values),),
    "devices": (_devices,),
    "shared_memory": (lambda host, values: [check_shared_memory(values)],),
    "tensorflow": (
        lambda host, values: [check_tensorflow(values, host.known["packages"])],
        _gpus,
    ),
    "keras": (lambda host, values: [check_keras(values, host.known["packages"])],),
    "operations": (lambda host, values: [check_operations(values)],),
    "engine": (lambda host, values: [check_engine(values)],),
    "failure": (_failure,),
}
"""By the fact after which they are made, with that and what is known before."""
