"""Threads and GPU of a rank that `srun`, an MPI or torchrun has started, as the launcher sets them.

TensorFlow reads these variables when it is used first, not when it is imported: so they are set
when this package is imported, and no other rank is asked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import MutableMapping
from pathlib import Path

from tnt_comm.start.join import current_place
from tnt_comm.start.place import Place
from tnt_keras.process.rank import read_settings

# TensorFlow threads that run whole operations; one follows backpropagation, one does the rest.
_MIN_INTER_OP_THREADS = 2
_LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_DEVICES = Path("/dev")


_warnings: list[str] = []


def set_up_this_rank() -> None:
    """Set up this process if it is a rank that the launcher has not started. Local."""
    with contextlib.suppress(ValueError):  # which the first call that needs the place raises
        place = current_place()
        if place is not None and place.size > 1:
            warning = set_up_rank(place, os.environ)
            _warnings.extend(filter(None, [warning]))


def take_warnings() -> list[str]:
    """Return what is to be told once there is a log. Local."""
    taken, _warnings[:] = _warnings[:], []
    return taken


def set_up_rank(
    place: Place, environment: MutableMapping[str, str], devices: Path = _DEVICES
) -> str | None:
    """Set the variables of TensorFlow that are not set yet; return what to warn of. Local."""
    stated = read_settings(environment)
    threads = stated.num_threads or _fair_threads(place, environment)
    if threads is not None:
        environment.setdefault("TF_NUM_INTRAOP_THREADS", str(threads))
        environment.setdefault("TF_NUM_INTEROP_THREADS", str(max(threads, _MIN_INTER_OP_THREADS)))
        environment.setdefault("OMP_NUM_THREADS", str(threads))
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if stated.gpus_per_node == 0:
        environment.update(dict.fromkeys(_LISTS, "-1"))
        return None
    environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    return _take_gpu(place, environment, devices)


def _fair_threads(place: Place, environment: MutableMapping[str, str]) -> int | None:
    """Return how many threads have a CPU each; None, TensorFlow's choice, for one rank alone."""
    if place.local_size in (None, 1):
        return None
    # A rank may be bound to CPUs of its own, or of its part of the host; or share all that the job
    # has here, which SLURM says and others do not.
    of_job = environment.get("SLURM_CPUS_ON_NODE", "")
    of_host = int(of_job) if of_job.isdecimal() else os.cpu_count() or 1
    share = of_host // (place.local_size or 1)
    return max(1, min(share, len(os.sched_getaffinity(0))))


def _take_gpu(place: Place, environment: MutableMapping[str, str], devices: Path) -> str | None:
    """Let this rank see its own GPU alone: entry r of the list for local rank r."""
    listed = next((name for name in _LISTS if name in environment), None)
    if listed is None:
        gpus = [str(number) for number, _ in enumerate(devices.glob("nvidia[0-9]*"))]
    else:
        gpus = [entry.strip() for entry in environment[listed].split(",") if entry.strip()]
    # A list of one is that which SLURM gave to this very task.
    is_chosen = not gpus or (listed is not None and len(gpus) == 1)
    if is_chosen or place.local_rank is None or place.local_size is None:
        return None
    if len(gpus) < place.local_size:
        environment.update(dict.fromkeys(_LISTS, "-1"))
        found = "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        return (
            f"Only {found} for {place.local_size} ranks of this host: all ranks run on CPUs. "
            "Start one rank for each GPU, or set TNT_GPUS_PER_NODE=0. [fewer-gpus]"
        )
    own = gpus[place.local_rank]
    environment.update({name: own for name in _LISTS if name in environment} or {_LISTS[0]: own})
    return None
