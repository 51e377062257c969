"""Fit a line with numpy on all ranks; rank 0 prints their hosts and a digest of the weights."""

import hashlib
import json
import os
import sys
import time

import numpy as np

import tnt_comm

STEPS = 20
step_s = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
samples = np.random.default_rng(1).normal(size=(61, 5))
targets = samples @ np.arange(5.0)
mine = slice(rank * len(samples) // size, (rank + 1) * len(samples) // size)
weights = np.zeros(5)
for step in range(STEPS):
    error = samples[mine] @ weights - targets[mine]
    weights -= 0.01 * tnt_comm.allreduce(samples[mine].T @ error)
    if rank == 0 and step == 0:
        print("first step", file=sys.stderr, flush=True)
    time.sleep(step_s)
hosts = tnt_comm.allgather(np.frombuffer(os.uname().nodename.encode(), np.uint8))
if rank == 0:
    names = [host.tobytes().decode() for host in hosts]
    print(json.dumps({"hosts": names, "weights": hashlib.sha256(weights).hexdigest()}))
