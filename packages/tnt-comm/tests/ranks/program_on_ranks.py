"""Run a program on ranks that have no launcher."""

import os
import secrets
import subprocess
import sys

from tnt_comm.testing.placement import Host, Placement, rendezvous_variables

DEADLINE_S = 110
ONE_HOST = (Host(2),)


def run_program(folder, program, hosts=ONE_HOST, engine=None):
    """Return the exit codes of the ranks, and what each wrote to stderr."""
    (folder / "job.py").write_text(program)
    placement, job_id = Placement(hosts), secrets.token_hex(8)
    common = {**(engine or {}), **rendezvous_variables(placement)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "job.py"],
            cwd=folder,
            env={**os.environ, **common, **placement.variables(rank, job_id)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(placement.size)
    ]
    told = [rank.communicate(timeout=DEADLINE_S)[1] for rank in ranks]
    return [rank.returncode for rank in ranks], told
