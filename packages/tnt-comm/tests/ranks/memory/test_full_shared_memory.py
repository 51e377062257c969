"""A /dev/shm that is too small: one sentence on every rank, no signal, and nobody hangs."""

import json
import os
import re
import subprocess
import sys

import pytest

NUM_RANKS = 3

RANK = """
import json, sys
import numpy as np
import tnt_comm

def create():
    if sys.argv[1] == "array":
        return tnt_comm.empty(1 << 26, "float32")
    plan = tnt_comm.FusionPlan([tnt_comm.TensorSpec("x", "float32", 1 << 26)], 0)
    return tnt_comm.GradientReducer(plan)

try:
    tnt_comm.init()
    if sys.argv[1] != "job":
        create()
    message = "created"
except tnt_comm.CommError as error:
    message = str(error)
total = None
if sys.argv[1] != "job":
    total = float(tnt_comm.allreduce(np.ones(3))[0])
print(json.dumps([message, total]))
"""

# Starts the ranks in a namespace that has a /dev/shm of its own, and prints what came of them.
JOB = f"""
import json, os, subprocess, sys
ranks = [
    subprocess.Popen(
        [sys.executable, "-c", {RANK!r}, sys.argv[1]],
        env={{**os.environ, "TNT_RANK": str(rank), "TNT_SIZE": "{NUM_RANKS}",
             "TNT_JOB_ID": "fullmemory", "TNT_TIMEOUT_S": "40"}},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    for rank in range({NUM_RANKS})
]
outputs = [rank.communicate() for rank in ranks]
print(json.dumps([[rank.returncode, *output] for rank, output in zip(ranks, outputs)]))
"""


def outcomes(what: str, size: str) -> list[tuple[str, float | None]]:
    mount = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$0" "$@"'
    command = ["unshare", "-m", "sh", "-c", mount]
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("a mount namespace of its own is not permitted here")
    env = {name: value for name, value in os.environ.items() if not name.startswith("TNT_")}
    done = subprocess.run(
        [*command, sys.executable, "-c", JOB, what],
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    result = []
    for status, out, err in json.loads(done.stdout):
        assert status == 0, err
        result.append(tuple(json.loads(out)))
    return result


def is_a_reason(sentence: str) -> bool:
    pattern = (
        r"rank \d: cannot reserve [\d.]+ MiB of shared memory: No space left on device; /dev/shm"
        r" has [\d.]+ MiB free of [\d.]+\. Make /dev/shm larger .*, or use fewer ranks on this host"
    )
    has_one_end = "\n" not in sentence and "host.." not in sentence
    return re.search(pattern, sentence) is not None and has_one_end


@pytest.mark.parametrize("size", ["4k", "1m"])
def test_there_is_no_job_and_every_rank_says_why(size: str) -> None:
    for message, _ in outcomes("job", size):
        assert is_a_reason(message), message


@pytest.mark.parametrize(("what", "size"), [("reducer", "9m"), ("array", "32m")])
def test_an_object_that_does_not_fit_is_refused_on_every_rank_and_all_go_on(
    what: str, size: str
) -> None:
    for message, total in outcomes(what, size):
        assert is_a_reason(message), message
        assert total == NUM_RANKS
