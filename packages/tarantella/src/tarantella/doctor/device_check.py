"""Ask tnt-comm about the GPUs of this host, and tell it; the driver may hang or crash."""

from __future__ import annotations

from importlib import metadata

import tnt_comm
from tarantella.doctor.tell import tell


def main() -> None:
    """Tell what `tnt_comm.describe_devices()` returns, or that this tnt-comm lacks it."""
    describe = getattr(tnt_comm, "describe_devices", None)
    if describe is None:
        tell("devices", lacking=metadata.version("tnt-comm"))
    else:
        tell("devices", **describe())


if __name__ == "__main__":
    main()
