"""What ranks run in `test_shared_batches.py`: a small training on shared batches of sentences."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from models.transformer.data.batching import BatchSettings
from models.transformer.data.folder import load_dataset, load_synthetic_dataset
from models.transformer.special_tokens import PAD

VOCAB_SIZE = 11
MAX_LENGTH = 12


def make_model() -> keras.Model:
    """Predict each target from the inputs before it and its own predecessor."""
    keras.utils.set_random_seed(1)
    inputs, targets = (keras.Input((None,), dtype="int64") for _ in range(2))
    summary = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(VOCAB_SIZE, 4)(inputs))
    shifted = keras.ops.pad(targets, [[0, 0], [1, 0]])[:, :-1]
    states = keras.layers.Embedding(VOCAB_SIZE, 4)(shifted) + summary[:, None]
    return keras.Model([inputs, targets], keras.layers.Dense(VOCAB_SIZE)(states))


def train(distributed: bool, by_hand: bool, data_dir: str | None, options: dict[str, Any]) -> Any:
    """Train for two epochs; return the weights, and the losses of each epoch.

    Args:
        distributed: Whether the model is Tarantella's, or plain Keras.
        by_hand: Whether each rank makes the rows of its own of each batch.
        data_dir: Folder with records; None takes random ids.
        options: Of `BatchSettings`.
    """
    import tarantella as tnt

    model = make_model()
    rank, size = (tnt.get_rank(), tnt.get_size()) if by_hand else (0, 1)
    settings = BatchSettings(**options, max_length=MAX_LENGTH, num_ranks=size, rank=rank)
    if data_dir is None:
        dataset = load_synthetic_dataset(settings, VOCAB_SIZE)
    else:
        dataset = load_dataset(data_dir, "train", settings)
    arguments: dict[str, Any] = {}
    if distributed:
        model = tnt.Model(model)
        arguments = {"tnt_distribute_dataset": not by_hand}
    model.compile(
        keras.optimizers.Adam(0.05),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=PAD),
    )
    history = model.fit(dataset, epochs=2, verbose=0, **arguments)
    return {
        "weights": [np.array(weight) for weight in model.get_weights()],
        "loss": np.array(history.history["loss"]),
        "steps": int(model.optimizer.iterations.numpy()),
    }
