"""Fit a line with numpy on all ranks; rank 0 prints their hosts and a digest of the weights.

usage: fit_line.py [SECONDS_OF_A_STEP [BACKUP]]. With a backup, every fifth step is saved, a signal
on any rank lets all save and leave with exit code 75, and a run goes on from what there is.
"""

import hashlib
import json
import os
import pathlib
import signal
import sys
import time

import numpy as np

import tnt_comm

STEPS = 20
step_s = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
backup = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
signals = []
if backup is not None:
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: signals.append(number))
rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
samples = np.random.default_rng(1).normal(size=(61, 5))
targets = samples @ np.arange(5.0)
mine = slice(rank * len(samples) // size, (rank + 1) * len(samples) // size)
done, weights = 0, np.zeros(5)
if backup is not None and backup.exists():
    with backup.open("rb") as file:
        done, weights = int(np.load(file)), np.load(file)
for step in range(done, STEPS):
    error = samples[mine] @ weights - targets[mine]
    weights -= 0.01 * tnt_comm.allreduce(samples[mine].T @ error)
    if rank == 0:
        print(f"step {step}", file=sys.stderr, flush=True)
    time.sleep(step_s)
    if backup is None:
        continue
    must_leave = tnt_comm.allreduce(np.array([len(signals)]))[0] > 0
    if rank == 0 and (must_leave or step % 5 == 4):
        with backup.with_suffix(".new").open("wb") as file:
            np.save(file, step + 1)
            np.save(file, weights)
        backup.with_suffix(".new").replace(backup)
    if must_leave:
        sys.exit(75)
hosts = tnt_comm.allgather(np.frombuffer(os.uname().nodename.encode(), np.uint8))
if rank == 0:
    names = [host.tobytes().decode() for host in hosts]
    print(json.dumps({"hosts": names, "weights": hashlib.sha256(weights).hexdigest()}))
