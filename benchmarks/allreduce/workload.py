"""What is summed: one array of some size, or all gradients of a model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.allreduce.gradient_sets import resnet50, transformer_big

UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2}
ITEM_BYTES = 4  # float32
GRADIENT_SETS = {
    "tiny": lambda: [3, 5000, 17, 40000],  # for tests
    "resnet50": resnet50,
    "transformer_big": transformer_big,
}
DEFAULT = (
    "1KiB", "8KiB", "64KiB", "512KiB", "1MiB", "4MiB", "16MiB", "100MiB",
    "resnet50", "transformer_big",
)  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """Arrays that are summed together."""

    name: str
    num_elements: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays of one rank."""
        return ITEM_BYTES * sum(self.num_elements)

    @property
    def is_gradients(self) -> bool:
        """Whether these are the gradients of a model, not a single array."""
        return self.name in GRADIENT_SETS


def make_workload(name: str) -> Workload:
    """Parse a size such as `4MiB`, or the name of a set of gradients. Pure."""
    if name in GRADIENT_SETS:
        return Workload(name, tuple(GRADIENT_SETS[name]()))
    match = re.fullmatch(r"(\d+)(B|KiB|MiB)", name)
    if not match:
        known = ", ".join(GRADIENT_SETS)
        raise ValueError(f"A workload is a size such as 4MiB, or one of {known}. Received: {name}.")
    num_bytes = int(match[1]) * UNITS[match[2]]
    if num_bytes == 0 or num_bytes % ITEM_BYTES:
        raise ValueError(f"A size must be a multiple of {ITEM_BYTES} bytes. Received: {name}.")
    return Workload(name, (num_bytes // ITEM_BYTES,))
