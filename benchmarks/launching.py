"""How the ranks of a library find each other on this host, as its own launcher would tell them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
from pathlib import Path

from benchmarks.jobs import rank_variables

OPENMPI = (
    "{bin}/mpiexec",
    "--allow-run-as-root",
    "--oversubscribe",
    "--bind-to",
    "none",
    "-n",
    "{n}",
)
"""Starts `{n}` ranks; `{bin}` is the folder of the interpreter."""


def tnt_variables(rank: int, num_ranks: int, path: Path) -> dict[str, str]:
    """What the launcher of Tarantella would set for a rank here; `path` is the job's alone."""
    job_id = hashlib.sha256(bytes(path)).hexdigest()[:16]
    return rank_variables(rank, num_ranks, job_id)


def torch_variables(rank: int, num_ranks: int, path: Path) -> dict[str, str]:
    """What torchrun would set for a rank of this host; arguments as for `tnt_variables`."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(num_ranks),
        "INIT_METHOD": f"file://{path}.rendezvous",
        "GLOO_SOCKET_IFNAME": "lo",
    }


def tensorflow_variables(rank: int, num_ranks: int, path: Path) -> dict[str, str]:
    """What a scheduler would set for a strategy of TensorFlow; arguments as for `tnt_variables`."""
    workers = Path(f"{path}.workers")
    if not workers.exists():
        workers.write_text(json.dumps([f"127.0.0.1:{port}" for port in free_ports(num_ranks)]))
    cluster = {"worker": json.loads(workers.read_text())}
    task = {"type": "worker", "index": rank}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def free_ports(number: int) -> list[int]:
    """Different ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("", 0))) for _ in range(number)]
        return [listener.getsockname()[1] for listener in listeners]
