"""What `scripts/fit_line.py` prints, wherever it runs."""

from __future__ import annotations

import functools
import json
from typing import cast

from run_command import run_command

SCRIPT = "tests/schedulers/scripts/fit_line.py"
OPTIONS = "--no-gpu"


def results(output: str) -> list[dict[str, object]]:
    """Return the results of all trainings in some output: one for each world of ranks."""
    lines = (line[line.index("{") :] for line in output.splitlines() if '{"hosts":' in line)
    return [json.loads(line) for line in lines]


@functools.cache
def weights_of(num_ranks: int, script: str = SCRIPT) -> object:
    """Return the digest of the weights after a training with so many ranks on this host."""
    threads = "-x TNT_NUM_THREADS=1"  # as on the clusters: TensorFlow's bits depend on them
    finished = run_command(f"tarantella -n {num_ranks} {OPTIONS} {threads} -- {script}")
    [result] = results(finished.output)
    return result["weights"]


def hosts_in(output: str) -> list[str]:
    """Return the hosts of the ranks of the only training."""
    [result] = results(output)
    return cast(list[str], result["hosts"])


def assert_trained(output: str, hosts: list[str], script: str = SCRIPT) -> None:
    """Check that one training has ended, of a rank on each of these hosts, with its weights."""
    assert results(output) == [{"hosts": hosts, "weights": weights_of(len(hosts), script)}], output
