"""What a step costs in a row of them, on average."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.step_time import now

Readings = Mapping[str, float]


def read_clocks() -> dict[str, float]:
    """Time on the clock, and CPU time of this process, in seconds."""
    return now()._asdict()


class SteadySteps:
    """Averages over the steps after the first one, which sets up what a row of steps needs."""

    # What happens between two steps counts too. `read` gives numbers that grow.

    def __init__(self, read: Callable[[], Readings] = read_clocks) -> None:
        self._read = read
        self._readings: list[Readings] = []

    def end_step(self) -> None:
        """To be called at the end of each step."""
        self._readings.append(self._read())

    def per_step(self) -> dict[str, float]:
        """By how much each number grew in a step."""
        first, last = self._readings[0], self._readings[-1]
        num_steps = len(self._readings) - 1
        return {name: (last[name] - first[name]) / num_steps for name in first}
