"""What a plan needs to know about a host."""

from __future__ import annotations

from dataclasses import dataclass

from tnt_launch.planning.hardware import Hardware

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class HostFacts:
    """A host as the plan of a job sees it."""

    hardware: Hardware
    working_directory: str
    temporary_directory: str = "/tmp"
    address: str = LOOPBACK  # at which other hosts reach it
    interpreter: tuple[str, ...] | None = None  # of the script there, if not what the launcher uses
