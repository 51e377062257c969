"""Which GPUs a process would see, by the lists of devices that a user or a scheduler has set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tnt_launch.errors import LaunchError
from tnt_launch.numbers import counted, listed
from tnt_launch.planning.gpu_drivers import Gpu, InstalledGpu, amd_gpus, nvidia_gpus

_CUDA, _HIP, _ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
_KINDS = ("GPU-", "MIG-")
# What users and schedulers write to show none.
_NONE = re.compile(r"-\d+|NoDevFiles|none|void|no", re.IGNORECASE)


class FoundGpus(NamedTuple):
    """The GPUs that a process would see."""

    gpus: tuple[Gpu, ...]
    listed: str = ""  # the list that has chosen them, as NAME=VALUE; empty without one
    remark: str = ""  # what is wrong with a list; empty if nothing


def find_gpus(environment: Mapping[str, str], stated: int | None = None) -> FoundGpus:
    """Find the GPUs that a process would see, or as many as are stated. Local."""
    if stated == 0:
        return FoundGpus(())
    installed = nvidia_gpus()
    is_nvidia = bool(installed)
    if not is_nvidia:
        installed = amd_gpus()
    if stated is not None:
        return stated_gpus(stated, installed, environment)
    visible = visible_gpus if is_nvidia else visible_amd_gpus
    return visible(installed, environment)


def visible_gpus(installed: Sequence[InstalledGpu], environment: Mapping[str, str]) -> FoundGpus:
    """List the GPUs that CUDA would show: up to the first entry that names none. Pure."""
    indexed = _indexed(installed, environment)
    if _CUDA in environment:
        return _shown(_CUDA, environment[_CUDA], indexed, installed)
    if not any(one.parts for one in installed):
        return FoundGpus(indexed)
    # Indices do not name parts: by index, CUDA shows only the first part of a GPU.
    return FoundGpus(tuple(gpu for one in installed for gpu in one.parts or (_by_uuid(one.gpu),)))


def visible_amd_gpus(
    installed: Sequence[InstalledGpu], environment: Mapping[str, str]
) -> FoundGpus:
    """List the GPUs that HIP would show. Pure."""
    left = _left_by_rocr(installed, environment)
    name = next((name for name in (_HIP, _CUDA) if name in environment), None)
    if name is None or not left.gpus:
        return left
    again = [InstalledGpu(gpu) for gpu in left.gpus]
    shown = _shown(name, environment[name], left.gpus, again)
    return shown._replace(remark=left.remark or shown.remark)


def stated_gpus(
    count: int, installed: Sequence[InstalledGpu], environment: Mapping[str, str]
) -> FoundGpus:
    """List the `count` GPUs that the user states with `TNT_GPUS_PER_NODE`. Pure."""
    lists = {name: environment[name] for name in (_CUDA, _HIP, _ROCR) if name in environment}
    for name, text in lists.items():
        if len(entries_of(text)) < count:
            raise LaunchError(
                f"TNT_GPUS_PER_NODE={count}, but {name}={text} lists only "
                f"{len(entries_of(text))}. Correct one of them."
            )
    known = installed
    if _ROCR in lists:  # what it shows is numbered anew
        known = [InstalledGpu(gpu) for gpu in _left_by_rocr(installed, environment).gpus]
    listing = next((name for name in (_CUDA, _HIP) if name in lists), None)
    entries = entries_of(lists[listing]) if listing else tuple(map(str, range(count)))
    indexed = _indexed(known, environment)
    gpus = (_match(entry, indexed, known) or Gpu(entry) for entry in entries[:count])
    return FoundGpus(tuple(gpus), f"{listing}={lists[listing]}" if listing else "")


def warnings_of_gpus(host: str, found: FoundGpus, num_used: int) -> list[str]:
    """Tell what is odd about the GPUs that the ranks of a host get, the first ones. Pure."""
    warnings = [f"{host}: {found.remark}"] if found.remark else []
    # A list such as 0,0 lets two ranks take turns on a GPU; it may also be a mistake.
    used = Counter(gpu.uuid or gpu.name for gpu in found.gpus[:num_used])
    most, count = used.most_common(1)[0] if used else ("", 0)
    if count > 1:
        name = next(gpu.name for gpu in found.gpus if most in (gpu.uuid, gpu.name))
        warnings.append(
            f"{host}: {found.listed} names GPU {name} for {count} ranks, which share its time and "
            "memory. List each GPU once to give each rank its own. [shared-gpu]"
        )
    return warnings


def entries_of(listed: str) -> tuple[str, ...]:
    """Return the entries of a list of visible devices. Pure."""
    return tuple(entry for entry in (word.strip() for word in listed.split(",")) if entry)


def _indexed(installed: Sequence[InstalledGpu], environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPU of each index; of several models CUDA's order is not known."""
    # CUDA puts the fastest first, unless it is told to number them as nvidia-smi does.
    has_one_model = len({one.gpu.model for one in installed}) <= 1
    if has_one_model or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return tuple(one.gpu for one in installed)
    return tuple(Gpu(one.gpu.name) for one in installed)


def _left_by_rocr(installed: Sequence[InstalledGpu], environment: Mapping[str, str]) -> FoundGpus:
    """Return what the runtime below HIP shows, numbered anew as HIP does it."""
    whole = tuple(one.gpu for one in installed)
    found = FoundGpus(whole)
    if _ROCR in environment:
        found = _shown(_ROCR, environment[_ROCR], whole, installed)
    again = (gpu._replace(name=str(index)) for index, gpu in enumerate(found.gpus))
    return found._replace(gpus=tuple(again))


def _shown(
    variable: str, text: str, indexed: Sequence[Gpu], installed: Sequence[InstalledGpu]
) -> FoundGpus:
    if not installed:
        return FoundGpus(())
    setting = f"{variable}={text}"
    gpus: list[Gpu] = []
    for entry in entries_of(text):
        gpu = _match(entry, indexed, installed)
        if gpu is None:
            if _NONE.fullmatch(entry):
                return FoundGpus(tuple(gpus), setting)
            remark = (
                f"{setting} names {entry}, {_why_none(entry, indexed, installed)}. As CUDA does, "
                f"tarantella uses only the {len(gpus)} before it. Correct the list. [unknown-gpu]"
            )
            return FoundGpus(tuple(gpus), setting, remark)
        gpus.append(gpu)
    return FoundGpus(tuple(gpus), setting)


def _match(entry: str, indexed: Sequence[Gpu], installed: Sequence[InstalledGpu]) -> Gpu | None:
    """Return the GPU that an entry of a list names, with that name; `None` if there is none."""
    if entry.isdecimal():
        return indexed[int(entry)]._replace(name=entry) if int(entry) < len(indexed) else None
    if not entry.startswith(_KINDS):
        return None
    matching = _abbreviated_by(entry, installed)
    if matching:
        return matching[0]._replace(name=entry) if len(matching) == 1 else None
    # The older name of a part contains that of its GPU: MIG-GPU-<UUID>/<instance>/<instance>.
    owner = entry.removeprefix("MIG-").partition("/")[0]
    for one in installed:
        if entry.startswith("MIG-GPU-") and one.gpu.uuid == owner:
            return one.gpu._replace(name=entry, uuid=entry)
    has_parts = bool(_abbreviated_by("MIG-", installed))
    is_told = has_parts if entry.startswith("MIG-") else all(one.gpu.uuid for one in installed)
    return None if is_told else Gpu(entry, entry)


def _abbreviated_by(entry: str, installed: Sequence[InstalledGpu]) -> list[Gpu]:
    """Return the GPUs, and parts of them, that an entry of a list may mean by its UUID."""
    if not entry.startswith(_KINDS):
        return []
    known = [gpu for one in installed for gpu in (one.gpu, *one.parts)]
    return [gpu for gpu in known if gpu.uuid.lower().startswith(entry.lower())]


def _by_uuid(gpu: Gpu) -> Gpu:
    return gpu._replace(name=gpu.uuid) if gpu.uuid else Gpu(gpu.name)


def _why_none(entry: str, indexed: Sequence[Gpu], installed: Sequence[InstalledGpu]) -> str:
    """Tell why an entry of a list names no GPU, as a clause."""
    fitting = [gpu.uuid for gpu in _abbreviated_by(entry, installed)]
    if fitting:
        return f"which is ambiguous: it fits {listed(fitting)}"
    return f"which is not one of the {counted(len(indexed), 'GPU')} here"
