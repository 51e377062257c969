"""What a plan needs to know about a host."""

from __future__ import annotations

from dataclasses import dataclass

from tnt_launch.planning.hardware import Hardware

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class HostFacts:
    """A host as the plan of a job sees it.

    Attributes:
        hardware: What it has.
        working_directory: Absolute path in which its ranks start.
        temporary_directory: Absolute path of a folder for files that the job may need.
        address: The IP address at which other hosts reach it.
        interpreter: What runs the script there, if not what the launcher uses.
    """

    hardware: Hardware
    working_directory: str
    temporary_directory: str = "/tmp"
    address: str = LOOPBACK
    interpreter: tuple[str, ...] | None = None
