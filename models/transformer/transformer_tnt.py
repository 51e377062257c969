"""Train a Transformer to translate: serially, or on as many ranks as `tarantella` starts.

    python models/transformer/transformer_tnt.py --distribute=none --data_dir=... --vocab_file=...
    tarantella -n 8 -- models/transformer/transformer_tnt.py --data_dir=... --vocab_file=...

The model is that of A. Vaswani et al., Attention Is All You Need, 2017
(https://arxiv.org/abs/1706.03762). README.md explains the flags and what to expect.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from models.shared.distribution import Distribution, ParallelMethods
from models.shared.training_flags import make_folders_for_results
from models.transformer.flags import (
    DECIDING,
    log_to_stderr,
    params_of,
    parse_flags,
    prepare_environment,
    warn_of_flags_without_effect,
)
from models.transformer.vocabulary import Vocabulary, load_vocabulary

if TYPE_CHECKING:
    import keras

    from models.transformer.task import TransformerTntTask


def main(argv: Sequence[str] | None = None) -> keras.callbacks.History:
    """Train, and return the history, in which the scores are, too.

    Args:
        argv: Flags; by default those of the process.
    """
    flags = parse_flags(argv)
    prepare_environment(flags)
    make_folders_for_results(flags)
    distribution = Distribution(ParallelMethods(flags.distribute))
    log_to_stderr(distribution.is_master)
    warn_of_flags_without_effect(flags)

    import keras

    keras.utils.set_random_seed(flags.seed)
    vocabulary = load_vocabulary(flags.vocab_file) if flags.vocab_file else None
    task = make_task(flags, vocabulary, distribution)
    return train(task, flags, vocabulary, distribution)


def make_task(
    flags: argparse.Namespace, vocabulary: Vocabulary | None, distribution: Distribution
) -> TransformerTntTask:
    """Return the two models: one trains on all ranks, the other translates on each by itself."""
    from models.shared.precision import layers_of_precision
    from models.transformer.task import TransformerTntTask

    params = params_of(flags, vocabulary.size if vocabulary else None)
    with layers_of_precision(flags.mixed_precision):
        return TransformerTntTask(
            params, distribution.wrap, metrics_in_training=flags.enable_metrics_in_training
        )


def train(
    task: TransformerTntTask,
    flags: argparse.Namespace,
    vocabulary: Vocabulary | None,
    distribution: Distribution,
) -> keras.callbacks.History:
    """Train for all epochs, with a pause to evaluate every `--epochs_between_evals`, and save.

    Collective.
    """
    from models.shared.resuming import prepare_to_resume
    from models.transformer.evaluation import evaluation_epochs
    from models.transformer.input import make_datasets
    from models.transformer.training_callbacks import make_callbacks

    training_data, validation_data = make_datasets(flags, task.params, vocabulary, distribution)
    pauses = evaluation_epochs(flags.train_epochs, flags.epochs_between_evals)
    callbacks = make_callbacks(task, flags, vocabulary, distribution, pauses)
    resumption = prepare_to_resume(
        distribution,
        task.train_model,
        training_data,
        flags.model_dir / "backup" if flags.model_dir and flags.enable_checkpointing else None,
        settings={name: getattr(flags, name) for name in DECIDING},
        resume=flags.resume,
        save_freq=flags.backup_freq,
    )
    history = task.train_model.fit(
        training_data,
        initial_epoch=resumption.initial_epoch,
        epochs=flags.train_epochs,
        validation_data=validation_data,
        validation_freq=pauses,
        callbacks=[*callbacks, *resumption.callbacks],
        shuffle=False,  # the dataset does it
        verbose=flags.verbose,
        **manual_distribution(flags, distribution),
    )
    distribution.print(summary_of(history.history))
    if flags.model_dir is not None:
        weights = flags.model_dir / "transformer.weights.h5"
        task.train_model.save_weights(weights, overwrite=True)  # all ranks; the master writes
    if distribution.is_master:
        resumption.discard_backup(history, flags.train_epochs)
    return history


def manual_distribution(flags: argparse.Namespace, distribution: Distribution) -> dict[str, Any]:
    """Return what `fit` must know if each rank takes its rows of a batch by itself."""
    if flags.auto_data_dist or distribution.method is ParallelMethods.NONE:
        return {}
    return {"tnt_distribute_dataset": False}


def summary_of(history: Mapping[str, Sequence[float]]) -> str:
    """Return the last value of each log."""
    return ", ".join(f"{name}: {values[-1]:.4f}" for name, values in sorted(history.items()))


if __name__ == "__main__":
    main()
