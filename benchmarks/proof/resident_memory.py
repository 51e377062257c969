"""The memory of this process that is in use, as the kernel counts it."""

from __future__ import annotations

from pathlib import Path

_PROCESS = Path("/proc/self")


def resident_mib() -> float:
    """MiB that are resident now."""
    return _status_mib("VmRSS")


def highest_mib() -> float:
    """MiB that were resident at most since `forget_highest`."""
    return _status_mib("VmHWM")


def forget_highest() -> None:
    """Let the highest number of MiB be that of now."""
    (_PROCESS / "clear_refs").write_text("5", encoding="ascii")


def _status_mib(name: str) -> float:
    lines = (_PROCESS / "status").read_text(encoding="utf-8").splitlines()
    [kib] = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(kib) / 1024
