"""Make the environment of zig: `python -m benchmarks.kernels.install_peers [FOLDER]`."""

from __future__ import annotations

from benchmarks.peers import chosen_folder, make_environment

# Exact, so that numbers in the documentation can be measured again.
ZIG = ["ziglang==0.17.1"]

if __name__ == "__main__":
    make_environment(chosen_folder() / "zig", ZIG)
