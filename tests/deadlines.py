"""Deadlines of tests: `TEST_SLOWNESS=3` gives a machine that is slow three times as long."""

import os

SLOWNESS = float(os.environ.get("TEST_SLOWNESS", "1"))


def deadline_s(seconds: float) -> float:
    """Return a deadline, stated for a usual machine with two cores, for this one."""
    return seconds * SLOWNESS
