"""What `scripts/fit_line.py` prints, wherever it runs."""

from __future__ import annotations

import functools
import json

from run_command import run_command

SCRIPT = "tests/schedulers/scripts/fit_line.py"
OPTIONS = "--no-gpu"


def results(output: str) -> list[dict[str, object]]:
    """Return the results of all trainings in some output: one for each world of ranks."""
    lines = (line[line.index("{") :] for line in output.splitlines() if '{"hosts":' in line)
    return [json.loads(line) for line in lines]


@functools.cache
def weights_of(num_ranks: int) -> object:
    """Return the digest of the weights after a training with so many ranks on this host."""
    finished = run_command(f"tarantella -n {num_ranks} {OPTIONS} -- {SCRIPT}")
    [result] = results(finished.output)
    return result["weights"]


def assert_trained(output: str, hosts: list[str]) -> None:
    """Check that there was one training, of a rank on each of these hosts, with its weights."""
    assert results(output) == [{"hosts": hosts, "weights": weights_of(len(hosts))}], output
