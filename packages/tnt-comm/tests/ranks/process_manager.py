"""A process manager that speaks PMI-1, as Hydra does, and what else starts several processes."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

DEADLINE_S = 110
OF_STARTERS = ("TNT_", "SLURM_", "PMI", "OMPI_", "MPI_", "TORCHELASTIC_")


class ProcessManager:
    """One end of a connection for each process; all exchange through one store of values."""

    def __init__(self, size: int) -> None:
        """Begin to serve, in threads."""
        pairs = [socket.socketpair() for _ in range(size)]
        self.of_processes = [pair[1] for pair in pairs]
        self.said_goodbye = [False] * size
        self._values: dict[str, str] = {}
        self._barrier = threading.Barrier(size)
        self._threads = [
            threading.Thread(target=self._serve, args=(rank, pair[0]), daemon=True)
            for rank, pair in enumerate(pairs)
        ]
        for thread in self._threads:
            thread.start()

    def variables(self, rank: int) -> dict[str, str]:
        """Return what a process finds in its environment."""
        size = len(self.of_processes)
        return {
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(size),
            "PMI_FD": str(self.of_processes[rank].fileno()),
            "MPI_LOCALRANKID": str(rank),
            "MPI_LOCALNRANKS": str(size),
        }

    def close(self) -> None:
        """Wait for the goodbyes of processes that have ended."""
        self._barrier.abort()
        for end in self.of_processes:
            end.close()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _serve(self, rank: int, connection: socket.socket) -> None:
        over = (threading.BrokenBarrierError, ConnectionError)
        with contextlib.suppress(*over), connection, connection.makefile("rw") as lines:
            for line in lines:
                words = dict(word.split("=", 1) for word in line.split())
                lines.write(f"{self._answer(rank, words)}\n")
                lines.flush()

    def _answer(self, rank: int, words: Mapping[str, str]) -> str:
        match words["cmd"]:
            case "init":
                return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
            case "get_my_kvsname":
                return "cmd=my_kvsname kvsname=values"
            case "put":
                self._values[words["key"]] = words["value"]
                return "cmd=put_result rc=0 msg=success"
            case "barrier_in":
                self._barrier.wait(DEADLINE_S)
                return "cmd=barrier_out"
            case "get":
                return f"cmd=get_result rc=0 msg=success value={self._values[words['key']]}"
            case "finalize":
                self.said_goodbye[rank] = True
                return "cmd=finalize_ack"
        return "cmd=error rc=-1"


def task_of_srun(
    rank: int, tasks: Sequence[int], job: int, nodes: str = "localhost"
) -> dict[str, str]:
    """Return the variables of a task, by its number among all; `tasks` are those of each node."""
    node = next(n for n in range(len(tasks)) if rank < sum(tasks[: n + 1]))
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": str(sum(tasks)),
        "SLURM_STEP_NUM_TASKS": str(sum(tasks)),
        "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, tasks)),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_PROCID": str(rank),
        "SLURM_NODEID": str(node),
        "SLURM_LOCALID": str(rank - sum(tasks[:node])),
    }


def worker_of_torchrun(rank: int, size: int, run: str) -> dict[str, str]:
    """Return the variables of a worker on a host of its own kind, as documented."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": run,
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


def rank_of_open_mpi(rank: int, size: int, job: str, programs: int) -> dict[str, str]:
    """Return the variables of one of several on a host, whose `mpirun` was given programs."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(size),
        "OMPI_NUM_APP_CTX": str(programs),
        "PMIX_NAMESPACE": job,
        "PMIX_RANK": str(rank),
    }


def start(
    script: str,
    size: int,
    variables: Callable[[int], Mapping[str, str]],
    descriptors: Sequence[int] = (),
    arguments: Sequence[str] = (),
) -> "list[subprocess.Popen[str]]":
    """Start a script as often, each process with variables of its own."""
    kept = {k: text for k, text in os.environ.items() if not k.startswith(OF_STARTERS)}
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            env={**kept, "TNT_TIMEOUT_S": "60", **variables(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            text=True,
        )
        for rank in range(size)
    ]


def finish(processes: "list[subprocess.Popen[str]]") -> list[tuple[int, str, str]]:
    """Return exit code, output and messages of each; none is left."""
    try:
        told = [process.communicate(timeout=DEADLINE_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(each.returncode, *texts) for each, texts in zip(processes, told, strict=True)]
