"""What takes part in training beside the model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import keras

from models.shared.distribution import Distribution
from models.shared.runtime_profiler import RuntimeProfiler
from models.shared.step_history import StepHistory
from models.shared.time_history import TimeHistory
from models.transformer.bleu import compute_bleu
from models.transformer.evaluation import EvaluateTranslations, Translator, read_bleu_texts
from models.transformer.flags import logger
from models.transformer.task import TransformerTntTask
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
    sources, references = read_bleu_texts(flags.bleu_source, flags.bleu_ref)
    translator = Translator(
        task.predict_model,
        vocabulary,
        distribution,
        batch_size=flags.decode_batch_size,
        padded_length=flags.decode_max_length,
        shared=flags.evaluate_on == "ranks",
    )

    def score() -> Mapping[str, float]:
        return bleu_scores(translator.translate(sources), references)

    return EvaluateTranslations(score, pauses)


def bleu_scores(translations: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Return BLEU from 0 to 100, of the texts as they are and in lower case."""
    return {
        "bleu_uncased": compute_bleu(translations, references, case_sensitive=False),
        "bleu_cased": compute_bleu(translations, references, case_sensitive=True),
    }
