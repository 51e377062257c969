"""Make the environments of the peers: `python -m benchmarks.training.install_peers [FOLDER]`."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.peers import TORCH, add_beside, chosen_folder, make_environment

if __name__ == "__main__":
    make_environment(chosen_folder() / "gloo", TORCH)
    minor = ".".join(tf.__version__.split(".")[:2])
    # Its requirements would replace the TensorFlow that is compared.
    add_beside(chosen_folder() / "tf_keras", [f"tf_keras=={minor}.*"])
