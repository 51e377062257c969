"""What the drivers of this host tell of its GPUs: names, addresses, NUMA nodes; without CUDA."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tnt_launch.planning.cpus import describe_cpus, parse_cpu_list, read_text

NVIDIA_SMI_TIMEOUT_S = 10.0

_GPU_LINE = re.compile(r"GPU (\d+): (.*?)(?: \(UUID: (\S+)\))?\s*")
_PART_LINE = re.compile(r"\s+MIG (.+?)\s+Device\s+\d+: \(UUID: (MIG-\S+)\)\s*")
_MODULE_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)")


class Gpu(NamedTuple):
    """A GPU, or a part of one (MIG); what a driver does not tell is empty."""

    name: str  # by which CUDA or HIP shows it to a process: an index, or a UUID
    uuid: str = ""
    model: str = ""
    pci: str = ""  # its address as Linux writes it, 0000:3b:00.0
    node: int = -1  # the NUMA node that is near

    def words(self) -> str:
        """Name it with the place where it is, as far as that is known."""
        known = [self.pci] if self.pci else []
        known += [f"NUMA node {self.node}"] if self.node >= 0 else []
        name = self.name if self.name.startswith(("GPU-", "MIG-")) else f"GPU {self.name}"
        return f"{name} ({', '.join(known)})" if known else name


class InstalledGpu(NamedTuple):
    """A GPU of this host, named by its index, with the parts into which MIG has divided it."""

    gpu: Gpu
    parts: tuple[Gpu, ...] = ()


def nvidia_gpus(root: Path = Path("/")) -> tuple[InstalledGpu, ...]:
    """List the NVIDIA GPUs of this host by index; may start `nvidia-smi`. Local."""
    # In a container the folder of the driver shows all GPUs of the machine, nvidia-smi only those
    # that were given to the container; so the folder says which there are only without the tool.
    of_folder = _in_driver_folder(root)
    listing = _nvidia_smi_listing()
    if listing is None:
        indexed = [gpu._replace(name=str(index)) for index, gpu in enumerate(of_folder)]
        return tuple(InstalledGpu(_placed(gpu, root)) for gpu in indexed)
    installed = _read_listing(listing)
    by_uuid = {gpu.uuid: gpu.pci for gpu in of_folder if gpu.uuid}
    if len(of_folder) == len(installed):  # both are in the order of the addresses
        for known, one in zip(of_folder, installed, strict=True):
            by_uuid.setdefault(one.gpu.uuid, known.pci)
    return tuple(_with_address(one, by_uuid.get(one.gpu.uuid, ""), root) for one in installed)


def amd_gpus(root: Path = Path("/")) -> tuple[InstalledGpu, ...]:
    """List the AMD GPUs of this host as its driver numbers them. Local."""
    # The driver describes CPUs, which have no such SIMD units, as well. A container cannot read
    # what describes a GPU that was not given to it.
    folders = (root / "sys/class/kfd/kfd/topology/nodes").glob("[0-9]*")
    found: list[InstalledGpu] = []
    for folder in sorted(folders, key=lambda folder: int(folder.name)):
        lines = (line.split() for line in read_text(folder / "properties").splitlines())
        pairs = (words for words in lines if len(words) == 2 and words[1].isdecimal())
        values = {name: int(number) for name, number in pairs}
        if values.get("simd_count", 0) == 0:
            continue
        unique = values.get("unique_id", 0)
        gpu = Gpu(
            str(len(found)),
            f"GPU-{unique:016x}" if unique else "",
            read_text(folder / "name").strip(),
            _address_of_kfd(values),
        )
        found.append(InstalledGpu(_placed(gpu, root)))
    return tuple(found)


def driver_version(root: Path = Path("/")) -> str:
    """Return the kernel driver for GPUs with its version, empty if there is none. Local."""
    text = read_text(root / "proc/driver/nvidia/version")
    if text:
        found = _MODULE_VERSION.search(text)
        return f"NVIDIA {found[1]}" if found is not None else f"NVIDIA, {text.splitlines()[0]}"
    of_amd = read_text(root / "sys/module/amdgpu/version").strip()
    return f"amdgpu {of_amd}" if of_amd else ""


def _nvidia_smi_listing() -> str | None:
    """Return what the tool of the driver prints, `None` if there is none or it fails."""
    if shutil.which("nvidia-smi") is None:
        return None
    try:
        return subprocess.run(
            ["nvidia-smi", "-L"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=NVIDIA_SMI_TIMEOUT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _read_listing(text: str) -> list[InstalledGpu]:
    found: list[InstalledGpu] = []
    for line in text.splitlines():
        whole, part = _GPU_LINE.fullmatch(line), _PART_LINE.fullmatch(line)
        if whole is not None:
            found.append(InstalledGpu(Gpu(whole[1], whole[3] or "", whole[2])))
        elif part is not None and found:
            gpu, parts = found[-1]
            own = Gpu(part[2], part[2], f"{gpu.model} MIG {part[1]}")
            found[-1] = InstalledGpu(gpu, (*parts, own))
    return found


def _in_driver_folder(root: Path) -> Sequence[Gpu]:
    """List the GPUs of the driver's folder by address, without names."""
    gpus = []
    folder = root / "proc/driver/nvidia/gpus"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        lines = (line.partition(":") for line in read_text(path / "information").splitlines())
        values = {name.strip(): value.strip() for name, _, value in lines}
        uuid = values.get("GPU UUID", "")
        # It has question marks until something has used the GPU.
        gpus.append(Gpu("", "" if "?" in uuid else uuid, values.get("Model", ""), path.name))
    return gpus


def _with_address(installed: InstalledGpu, pci: str, root: Path) -> InstalledGpu:
    gpu = _placed(installed.gpu._replace(pci=pci), root)
    parts = (part._replace(pci=gpu.pci, node=gpu.node) for part in installed.parts)
    return InstalledGpu(gpu, tuple(parts))


def _address_of_kfd(values: dict[str, int]) -> str:
    location = values.get("location_id", 0)
    if location == 0:
        return ""
    bus, device, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 0x7
    return f"{values.get('domain', 0):04x}:{bus:02x}:{device:02x}.{function}"


def _placed(gpu: Gpu, root: Path) -> Gpu:
    return gpu._replace(node=node_of_device(gpu.pci, root)) if gpu.pci else gpu


def node_of_device(pci: str, root: Path = Path("/")) -> int:
    """Return the NUMA node that is near a device, -1 if the kernel does not know it. Local."""
    folder = root / "sys/bus/pci/devices" / pci.lower()
    text = read_text(folder / "numa_node").strip()
    if text.isdecimal():
        return int(text)
    # Firmware that does not tell the node of a device may tell that of its bus; and a host with
    # one node has no other.
    near = parse_cpu_list(read_text(folder / "local_cpulist"))
    nodes = {cpu.node for cpu in describe_cpus(near, root / "sys/devices/system")}
    return nodes.pop() if len(nodes) == 1 else -1
