"""The data that flags ask for."""

from __future__ import annotations

import argparse

import tensorflow as tf

from models.shared.distribution import Distribution
from models.transformer.data.batching import BatchSettings
from models.transformer.data.folder import load_dataset, load_synthetic_dataset
from models.transformer.flags import logger
from models.transformer.params import TransformerParams
from models.transformer.vocabulary import Vocabulary


def make_datasets(
    flags: argparse.Namespace,
    params: TransformerParams,
    vocabulary: Vocabulary | None,
    distribution: Distribution,
) -> tuple[tf.data.Dataset, tf.data.Dataset | None]:
    """Return training data, and those whose loss is computed in each evaluation if there are any.

    Args:
        flags: Of the program.
        params: Hyper-parameters.
        vocabulary: Encodes sentences; records need none.
        distribution: The ranks.
    """
    by_hand = not flags.auto_data_dist
    settings = BatchSettings(
        batch_tokens=params.batch_size,
        max_length=params.max_length,
        num_sentences=flags.num_sentences,
        bucketed=flags.bucketed,
        shuffle_seed=flags.seed,
        drop_remainder=flags.drop_remainder,
        num_ranks=distribution.size if by_hand else 1,
        rank=distribution.rank if by_hand else 0,
    )
    options = _options(flags)
    if flags.synthetic_data:
        return load_synthetic_dataset(settings, params.vocab_size).with_options(options), None
    size = params.vocab_size
    training_data = _load(flags, "train", settings, vocabulary, size).with_options(options)
    for_validation = BatchSettings(
        batch_tokens=params.batch_size,
        max_length=params.max_length,
        num_sentences=flags.num_eval_sentences,
        bucketed=flags.bucketed,
        shuffle_seed=None,
    )
    try:
        validation_data = _load(flags, "dev", for_validation, vocabulary, size)
    except FileNotFoundError:
        logger.info("%s has no dev split, so that no loss of one is logged.", flags.data_dir)
        return training_data, None
    return training_data, validation_data.with_options(options)


def _load(
    flags: argparse.Namespace,
    split: str,
    settings: BatchSettings,
    vocabulary: Vocabulary | None,
    vocab_size: int,
) -> tf.data.Dataset:
    return load_dataset(
        flags.data_dir,
        split,
        settings,
        vocabulary,
        source_language=flags.source_language,
        target_language=flags.target_language,
        vocab_size=vocab_size,
    )


def _options(flags: argparse.Namespace) -> tf.data.Options:
    """Return the limits of threads that were given."""
    options = tf.data.Options()
    if flags.num_parallel_calls:
        options.autotune.cpu_budget = flags.num_parallel_calls
    if flags.datasets_num_private_threads:
        options.threading.private_threadpool_size = flags.datasets_num_private_threads
    return options
