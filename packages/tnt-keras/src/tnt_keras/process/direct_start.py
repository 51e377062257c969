"""Threads and GPU of a rank that `srun`, an MPI or torchrun has started, as the launcher sets them.

A process alone gets the threads of its lanes, so that it has the bits of several ranks. TensorFlow
reads these variables when it is used first, not when it is imported: so they are set when this
package is imported, and no other rank is asked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from tnt_comm.start.join import current_place
from tnt_comm.start.place import Place
from tnt_keras.process.host_cores import cores_of_job, cores_of_process
from tnt_keras.process.rank import Settings, read_settings

# TensorFlow threads that run whole operations; one follows backpropagation, one does the rest.
_MIN_INTER_OP_THREADS = 2
_LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_DEVICES = Path("/dev")
_THREADS_OF_AN_OPERATION = "TF_NUM_INTRAOP_THREADS"
_ALONE = Place("", rank=0, size=1, local_rank=0, local_size=1, num_nodes=1)


_warnings: list[str] = []


def set_up_this_rank() -> None:
    """Set up this process if it is a rank that the launcher has not started. Local."""
    with contextlib.suppress(ValueError):  # which the first call that needs the place raises
        place = current_place()
        if place is not None and place.size > 1:
            _warnings.extend(set_up_rank(place, os.environ))
        elif "TNT_RANK" not in os.environ:
            set_up_process_alone(os.environ)


def take_warnings() -> list[str]:
    """Return what is to be told once there is a log. Local."""
    taken, _warnings[:] = _warnings[:], []
    return taken


def set_up_process_alone(environment: MutableMapping[str, str]) -> None:
    """Set the threads of lanes, as several ranks would have them. Local."""
    stated = read_settings(environment)
    if stated.lanes is not None:
        _set_threads_of_lanes(stated.lanes, _ALONE, stated, environment)


def set_up_rank(
    place: Place, environment: MutableMapping[str, str], devices: Path = _DEVICES
) -> list[str]:
    """Set the variables of TensorFlow that are not set yet; return what to warn of. Local."""
    stated = read_settings(environment)
    warnings: list[str | None] = []
    if stated.lanes is not None:
        _set_threads_of_lanes(stated.lanes, place, stated, environment)
        warnings.append(_unknown_hosts(place, stated, environment))
    else:
        threads = stated.num_threads or _fair_threads(place, environment)
        _set_threads(threads, threads, environment)
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if stated.gpus_per_node == 0:
        environment.update(dict.fromkeys(_LISTS, "-1"))
    else:
        environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        warnings.append(_take_gpu(place, environment, devices))
    return list(filter(None, warnings))


def _set_threads(
    threads: int | None, num_operations: int | None, environment: MutableMapping[str, str]
) -> None:
    """Set the sizes of pools: threads of an operation, and operations at a time."""
    if threads is not None and num_operations is not None:
        at_a_time = max(num_operations, _MIN_INTER_OP_THREADS)
        environment.setdefault(_THREADS_OF_AN_OPERATION, str(threads))
        environment.setdefault("TF_NUM_INTEROP_THREADS", str(at_a_time))
        environment.setdefault("OMP_NUM_THREADS", str(threads))


def _fair_threads(place: Place, environment: Mapping[str, str]) -> int | None:
    """Return how many threads have a CPU each; None, TensorFlow's choice, for one rank alone."""
    return None if place.local_size in (None, 1) else _cores_of_rank(place, environment)


def _cores_of_rank(place: Place, environment: Mapping[str, str]) -> int:
    # A rank may be bound to CPUs of its own, or of its part of the host; or share all that the job
    # has here.
    share = cores_of_job(environment) // (place.local_size or 1)
    return max(1, min(share, cores_of_process()))


def _set_threads_of_lanes(
    lanes: int, place: Place, stated: Settings, environment: MutableMapping[str, str]
) -> None:
    """Set threads of which only the number of operations at a time depends on the place."""
    threads, own = stated.num_threads, environment.get(_THREADS_OF_AN_OPERATION)
    if threads is None and own is not None:
        threads = int(own) if own.isdecimal() else 0
    elif threads is None:
        cores = cores_of_process() if place.size == 1 else cores_of_job(environment)
        threads = max(1, cores // lanes)
    if threads:  # 0 is TensorFlow's choice
        num_operations = min(lanes // place.size, _cores_of_rank(place, environment) // threads)
        _set_threads(threads, num_operations, environment)
        environment.setdefault("TNT_NUM_THREADS", str(threads))


def _unknown_hosts(place: Place, stated: Settings, environment: Mapping[str, str]) -> str | None:
    """Tell that ranks of other hosts may have other threads."""
    if place.is_on_one_host or stated.num_threads is not None:
        return None
    threads = environment.get(_THREADS_OF_AN_OPERATION, "0")
    return (
        f"Lanes have {threads} threads on this host, and others on hosts with other numbers of "
        f"cores, which are unknown here: set TNT_NUM_THREADS={threads} for all ranks, or start "
        "them with `tarantella`. [lanes-unknown-hosts]"
    )


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
