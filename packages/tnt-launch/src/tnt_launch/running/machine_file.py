"""The file of host names that GPI-2 reads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tnt_launch.planning.transports import MachineFile


@contextlib.contextmanager
def machine_file_written(file: MachineFile | None) -> Iterator[None]:
    """Keep the file, readable by this user alone, during the block."""
    if file is None:
        yield
        return
    descriptor = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as lines:
            lines.writelines(f"{host}\n" for host in file.hosts)
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.path)
