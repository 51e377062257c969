"""What takes part in training beside the model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import keras

from models.shared.distribution import Distribution
from models.shared.runtime_profiler import RuntimeProfiler
from models.shared.step_history import StepHistory
from models.shared.time_history import TimeHistory
from models.transformer.bleu import require_as_many_lines
from models.transformer.evaluation import BleuEvaluation, EvaluateTranslations
from models.transformer.flags import logger
from models.transformer.task import TransformerTntTask
from models.transformer.text_files import read_lines
from models.transformer.vocabulary import Vocabulary


def make_callbacks(
    task: TransformerTntTask,
    flags: argparse.Namespace,
    vocabulary: Vocabulary | None,
    distribution: Distribution,
    pauses: Sequence[int],
) -> list[keras.callbacks.Callback]:
    """Return the callbacks that flags ask for.

    Args:
        task: Whose model is trained.
        flags: Of the program.
        vocabulary: Of both languages.
        distribution: The ranks.
        pauses: Epochs, from 1, after which translations are scored.
    """
    callbacks: list[keras.callbacks.Callback] = []
    if flags.enable_time_history:
        logdir = flags.log_dir if flags.enable_tensorboard else None
        clock = TimeHistory(
            task.params.batch_size, logdir, counters=distribution.counters, unit="tokens"
        )
        callbacks.append(distribution.on_master(clock, aggregate_logs=False))
    if flags.enable_profiler:
        profiler = RuntimeProfiler(
            task.params.batch_size,
            logging_freq=flags.logging_freq,
            print_freq=flags.print_freq,
        )
        callbacks.append(distribution.on_master(profiler))
    if flags.bleu_source is not None and vocabulary is not None:
        callbacks.append(make_evaluation(task, flags, vocabulary, distribution, pauses))
    else:
        logger.info("No translations are scored: give --bleu_source and --bleu_ref.")
    if flags.step_history is not None:
        callbacks.append(distribution.on_master(StepHistory(flags.step_history)))
    if flags.enable_tensorboard:
        callbacks.append(keras.callbacks.TensorBoard(str(flags.log_dir)))
    return callbacks


def make_evaluation(
    task: TransformerTntTask,
    flags: argparse.Namespace,
    vocabulary: Vocabulary,
    distribution: Distribution,
    pauses: Sequence[int],
) -> EvaluateTranslations:
    """Return the callback that translates `--bleu_source` and compares with `--bleu_ref`."""
    require_as_many_lines(flags.bleu_source, flags.bleu_ref)
    evaluation = BleuEvaluation(
        task.predict_model,
        vocabulary,
        distribution,
        read_lines(flags.bleu_source),
        read_lines(flags.bleu_ref),
        batch_size=flags.decode_batch_size,
        padded_length=flags.decode_max_length,
        shared=flags.evaluate_on == "ranks",
    )
    return EvaluateTranslations(evaluation.score, pauses)
