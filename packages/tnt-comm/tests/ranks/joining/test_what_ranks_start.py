"""A program that a rank starts exchanges no data in its place."""

import subprocess
import sys

import numpy as np

import tnt_comm
from tnt_comm.testing import run_ranks

COLLECTIVE = "import tnt_comm; print(tnt_comm.get_rank()); tnt_comm.allreduce([1.0])"


def run_a_program(rank_that_does):
    """Run a program that calls a collective, then one of this rank's; return how they ended."""
    code, output, messages = 0, "", ""
    if tnt_comm.get_rank() == rank_that_does:
        done = subprocess.run(
            [sys.executable, "-c", COLLECTIVE], capture_output=True, text=True, timeout=60
        )
        code, output, messages = done.returncode, done.stdout, done.stderr
    return code, output, messages, tnt_comm.allreduce(np.array([1.0])).tolist()


def test_a_program_that_a_rank_starts_is_refused_and_the_ranks_go_on():
    other, (code, output, messages, total) = run_ranks(run_a_program, 2, 1)
    assert other == (0, "", "", [2.0])
    assert (code, output, total) == (1, "1\n", [2.0])
    assert "ValueError: This process was started by rank 1 (process " in messages
