"""All checks of one host; the launcher starts it as `python -m tarantella.doctor.host N`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from tarantella.doctor.child import run_check
from tarantella.doctor.machine import (
    tell_hardware,
    tell_limits,
    tell_networks,
    tell_shared_memory,
)
from tarantella.doctor.software import tell_packages, tell_python
from tarantella.doctor.tell import attempt

ENGINES = ("shm", "gpi2", "ucx")

# Far more than a slow file system or a busy host needs.
_TENSORFLOW_S, _ENGINE_S, _COLLECTIVE_S, _DEVICES_S = 120.0, 45.0, 30.0, 60.0


def main() -> None:
    """Tell everything about this host, what takes longest last."""
    num_ranks = sys.argv[1]
    for check, look in {
        "Python": tell_python,
        "packages": tell_packages,
        "shared memory": tell_shared_memory,
        "limits": tell_limits,
        "networks": tell_networks,
        "hardware": tell_hardware,
    }.items():
        attempt(check, look)
    python = [sys.executable, "-m"]
    run_check("GPU sums", [*python, "tarantella.doctor.device_check"], _DEVICES_S, os.environ)
    for engine in ENGINES:
        command = [*python, "tnt_launch", *_job_options(engine, num_ranks)]
        argv = [*command, "--", "-m", "tarantella.doctor.engine_test"]
        run_check(f"engine {engine}", argv, _ENGINE_S, os.environ)
    argv = [*python, "tarantella.doctor.tensorflow_check"]
    run_check("TensorFlow", argv, _TENSORFLOW_S, _quiet(os.environ))


def _job_options(engine: str, num_ranks: str) -> list[str]:
    """Return the options of the launcher for a job over an engine."""
    exports = [f"TNT_TRANSPORT={engine}", f"TNT_TIMEOUT_S={_COLLECTIVE_S:g}"]
    return ["-n", num_ranks, "--no-gpu", "--bind-to", "none", "-x", *exports]


def _quiet(environment: Mapping[str, str]) -> dict[str, str]:
    return {"TF_CPP_MIN_LOG_LEVEL": "3", **environment}


if __name__ == "__main__":
    main()
