"""One rank: trains a distributed model from its first step on, and watches the proof of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import tensorflow as tf

import tarantella as tnt
from benchmarks.keras_models import MODELS, Sizes, make_samples
from benchmarks.proof.resident_memory import forget_highest, highest_mib, resident_mib
from benchmarks.step_time import process_cpu_s
from benchmarks.training_steps import StepClock, versions
from tnt_keras.model import proved_steps
from tnt_keras.probe.proof import prove


class Losses(keras.callbacks.Callback):
    """Notes the loss after each step.

    Attributes:
        values: One for each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.values.append(float(logs["loss"]))


def measure(name: str, sizes: Sizes, batch_size: int, num_steps: int) -> dict[str, Any]:
    """Train a fresh model, with a proof before its first step or without. Collective.

    Args:
        name: Of the model.
        sizes: Of the models.
        batch_size: Samples of each rank.
        num_steps: More than one.

    Returns:
        Seconds, CPU seconds and losses of all steps, the first with its proof; what the proof
        took, if there was one; and the MiB that were resident at most, but for the proof.
    """
    keras.utils.set_random_seed(1)
    model = tnt.Model(MODELS[name](keras, sizes))
    samples = make_samples(name, sizes, batch_size * tnt.get_size())
    data = tf.data.Dataset.from_tensor_slices(samples).batch(len(samples[1])).repeat(num_steps)
    clock, losses = StepClock(), Losses()
    forget_highest()
    with watched_proofs() as proofs:
        model.fit(data, verbose=0, callbacks=[clock, losses])
    return {
        "parameters": model.count_params(),
        "steps": [step._asdict() for step in clock.steps],
        "losses": losses.values,
        "proofs": proofs,
        "highest_mib": highest_mib(),
    }


@contextmanager
def watched_proofs() -> Iterator[list[dict[str, float]]]:
    """Yield a list that gets what each proof in the with-block takes."""
    proofs: list[dict[str, float]] = []

    def watched(*arguments: Any) -> Any:
        forget_highest()
        before_mib, before_cpu_s = resident_mib(), process_cpu_s()
        proof = prove(*arguments)
        assert proof is not None, "there are samples"
        proofs.append(
            {
                "wall_s": proof.seconds,
                "cpu_s": process_cpu_s() - before_cpu_s,
                "findings": len(proof.decision.findings),
                "before_mib": before_mib,
                "highest_mib": highest_mib(),
                "after_mib": resident_mib(),
            }
        )
        forget_highest()
        return proof

    with patch.object(proved_steps, "prove", watched):
        yield proofs


def main() -> None:
    path, name, *numbers = sys.argv[1:]
    batch_size, num_steps, *sizes = map(int, numbers)
    result = measure(name, Sizes(*sizes), batch_size, num_steps)
    if tnt.get_rank() == 0:
        result["versions"] = versions()
        Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
