"""The checks of the GPUs of a host: facts become findings, by pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tnt_launch.doctor.report import Finding
from tnt_launch.numbers import counted, listed

SUMS = "GPU sums"

# By the engines of `tnt_comm.describe_devices()`.
_ENGINES = {
    "ipc": "on the GPUs, which read each other's memory",
    "host": "in the memory of the host, to and from which they are copied",
}


def check_gpus(
    found: Mapping[str, Any],
    tensorflow: Mapping[str, Any] | None,
    num_ranks: int | None,
    num_devices: int = 0,
) -> Finding:
    """Say how many GPUs there are, and whether TensorFlow can use them. Pure.

    `num_devices` is how many CUDA's driver has, which the launcher does not ask.
    """
    gpus = len(found["gpus"])
    if gpus == 0 and num_devices > 0:
        text = (
            "neither nvidia-smi nor /proc/driver/nvidia shows a GPU, so ranks run on CPUs; CUDA's "
            f"driver has {counted(num_devices, 'GPU')}"
        )
        remedy = f"Set TNT_GPUS_PER_NODE={num_devices} to give ranks these GPUs."
        return Finding("note", "GPUs", text, remedy)
    if gpus == 0:
        return Finding("ok", "GPUs", "none found: ranks run on CPUs")
    if tensorflow is not None and tensorflow["gpus"] < gpus:
        seen = f"{counted(gpus, 'GPU')} found, of which TensorFlow sees {tensorflow['gpus']}"
        if not tensorflow["is_built_for_gpus"]:
            text = f"{seen}: it was built only for CPUs"
            remedy = "Install the package tensorflow instead of tensorflow-cpu, or give --no-gpu."
            return Finding("problem", "GPUs", text, remedy)
        remedy = (
            'Install the libraries of its GPUs with `pip install "tensorflow[and-cuda]"`, check '
            "the driver with nvidia-smi, or give --no-gpu."
        )
        return Finding("problem", "GPUs", seen, remedy)
    if num_ranks is not None and gpus < num_ranks:
        text = f"{counted(gpus, 'GPU')} for {counted(num_ranks, 'rank')}: all ranks run on CPUs"
        remedy = f"Give -n {gpus} for a rank on each GPU."
        return Finding("note", "GPUs", text, remedy)
    return Finding("ok", "GPUs", f"{counted(gpus, 'GPU')}, one for each rank")


def describe_gpus(found: Mapping[str, Any]) -> Iterator[Finding]:
    """Say which driver and which GPUs the launcher finds; nothing without either. Pure."""
    if found["driver"] or found["gpus"]:
        yield Finding("ok", "GPU driver", found["driver"] or "its version is not known")
    for gpu in found["gpus"]:
        known = [gpu["model"], gpu["uuid"], gpu["pci"]]
        known.append(f"NUMA node {gpu['node']}" if gpu["node"] >= 0 else "")
        # The name of a part is its UUID.
        words = [word for word in known if word and word != gpu["name"]]
        yield Finding("ok", "GPU", f"{gpu['name']}: {', '.join(words) or 'nothing else is known'}")
    if found["remark"]:
        remedy = "`nvidia-smi -L` shows indices and UUIDs; unset the variable to use all GPUs."
        yield Finding("note", "list of GPUs", found["remark"], remedy)


def check_devices(devices: Mapping[str, Any], num_gpus: int) -> Iterator[Finding]:
    """Say whether GPUs reach each other, and what sums their gradients and why. Pure.

    `devices` is what `tnt_comm.describe_devices()` returns, or `lacking`, the version of a tnt-comm
    that does not have this function. On a host without GPUs there is nothing to say.
    """
    if "lacking" in devices:
        if num_gpus > 0:
            text = f"tnt-comm {devices['lacking']} cannot tell what sums gradients of GPUs"
            remedy = "Reinstall all packages of tarantella from one release."
            yield Finding("note", SUMS, text, remedy)
        return
    if not devices["is_available"]:
        if num_gpus > 0:
            remedy = "Check the driver with nvidia-smi, or give --no-gpu."
            yield Finding("note", SUMS, f"tnt-comm finds no GPU: {devices['reason']}", remedy)
        return
    if len(devices["devices"]) > 1:
        yield _check_peers(devices["can_access_peer"])
    version = devices["driver_version"]
    if devices["engine"] == "none":
        yield Finding("problem", SUMS, devices["why"], "Set TNT_GPU_SUMS to auto, or to host.")
        return
    text = f"{_ENGINES[devices['engine']]} ({devices['engine']}, driver for CUDA "
    text += f"{version // 1000}.{version % 1000 // 10}): {devices['why']}"
    yield Finding("ok" if devices["engine"] == "ipc" else "note", SUMS, text)


def _check_peers(can_access: Sequence[Sequence[bool]]) -> Finding:
    check, size = "GPU peers", len(can_access)
    pairs = [(one, other) for one in range(size) for other in range(one + 1, size)]
    apart = [
        f"{one} and {other}"
        for one, other in pairs
        if not (can_access[one][other] and can_access[other][one])
    ]
    if not apart:
        return Finding("ok", check, f"each of the {size} GPUs reaches all others directly")
    if len(apart) == len(pairs):
        return Finding("note", check, f"none of the {size} GPUs reaches another directly")
    return Finding("note", check, f"these do not reach each other directly: {listed(apart)}")
