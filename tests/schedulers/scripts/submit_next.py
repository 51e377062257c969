"""A rank that submits the next job, waits for it, and shows what that has printed.

usage: submit_next.py FOLDER COMMAND: where files may be, and what the job runs, on two nodes with
two tasks each.
"""

import pathlib
import subprocess
import sys

import tnt_comm

folder, command = sys.argv[1:]
if tnt_comm.get_rank() == 0:
    script, output = pathlib.Path(folder, "next.sh"), pathlib.Path(folder, "output")
    script.write_text(f"#!/bin/sh\n{command}\n")
    options = ["--nodes=2", "--ntasks-per-node=2", f"--output={output}"]
    code = subprocess.run(["sbatch", "--quiet", "--wait", *options, script]).returncode
    sys.stdout.write(output.read_text())
    sys.exit(code)
