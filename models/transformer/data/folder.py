"""Load the data of a folder, whatever is in it.

A folder holds, in this order of preference,

- records: files with `train` or `dev` in their names (`records.py`), which need no vocabulary;
- plain text: `train.en`, `train.de`, `dev.en`, `dev.de` (`parallel_text.py`);
- `wmt14_translate/de-en` of tensorflow-datasets (`wmt14.py`).
"""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from models.transformer.data.batching import BatchSettings
from models.transformer.data.parallel_text import (
    drop_empty,
    find_parallel_text,
    read_parallel_text,
)
from models.transformer.data.records import find_records, read_records
from models.transformer.data.sentence_pairs import SentencePairs, batches_of_pairs, encode_pairs
from models.transformer.data.synthetic import make_synthetic_pairs
from models.transformer.data.wmt14 import find_wmt14, read_wmt14
from models.transformer.vocabulary import Vocabulary


def load_dataset(
    data_dir: str | Path,
    split: str,
    settings: BatchSettings,
    vocabulary: Vocabulary | None = None,
    *,
    source_language: str = "en",
    target_language: str = "de",
    vocab_size: int | None = None,
) -> tf.data.Dataset:
    """Load batches of a split.

    Args:
        data_dir: Folder with data.
        split: `train` or `dev`.
        settings: Of the batches.
        vocabulary: Encodes sentences; not used for records.
        source_language: Ends the name of text files, and selects the direction of WMT14.
        target_language: Likewise.
        vocab_size: Ids of records must be less; None does not look.

    Returns:
        Yields `((inputs, targets), targets)`, of a known number; see `make_batches`.

    Raises:
        FileNotFoundError: If the folder holds no such split.
        ValueError: If sentences are there and no vocabulary, nothing that fits the settings, or
            records that are damaged or of another vocabulary.
    """
    records = find_records(data_dir, split)
    if records and find_wmt14(data_dir) != Path(data_dir):  # whose files are TFRecords of texts
        pairs = read_records(records, settings.num_sentences)
        if vocab_size is not None:
            require_known_ids(pairs, vocab_size, data_dir)
        return batches_of_pairs(pairs, settings)
    sentences = read_sentences(
        data_dir, split, source_language, target_language, settings.num_sentences
    )
    if vocabulary is None:
        raise ValueError(
            f"{data_dir} holds sentences, which need a vocabulary: give --vocab_file, or make one "
            f"by models/transformer/prepare_data.py."
        )
    pairs = encode_pairs(*sentences, vocabulary)
    return batches_of_pairs(pairs, settings)


def require_known_ids(pairs: SentencePairs, vocab_size: int, data_dir: str | Path) -> None:
    """Check that a vocabulary has all ids of pairs."""
    smallest = min(side.ids.min(initial=0) for side in pairs)
    largest = max(side.ids.max(initial=0) for side in pairs)
    if smallest < 0 or largest >= vocab_size:
        raise ValueError(
            f"The records of {data_dir} have ids from {smallest} to {largest}, and the vocabulary "
            f"has {vocab_size}: give the --vocab_file that they were made with, or its size as "
            "--vocab_size."
        )


def read_sentences(
    data_dir: str | Path,
    split: str,
    source_language: str = "en",
    target_language: str = "de",
    num_pairs: int | None = None,
) -> tuple[list[str], list[str]]:
    """Return the sentences of a split of text or of tensorflow-datasets, without empty ones.

    Raises:
        FileNotFoundError: If the folder has neither.
    """
    languages = (source_language, target_language)
    if paths := find_parallel_text(data_dir, split, *languages):
        return drop_empty(*read_parallel_text(*paths, num_pairs))
    if version := find_wmt14(data_dir):
        return drop_empty(*read_wmt14(version, split, *languages, num_pairs))
    raise FileNotFoundError(
        f"{data_dir} has no {split} data: neither TFRecords (*{split}*), nor {split}."
        f"{source_language} and {split}.{target_language}, nor wmt14_translate/de-en. See "
        f"models/transformer/DATA.md, or take --synthetic_data."
    )


def load_synthetic_dataset(settings: BatchSettings, vocab_size: int) -> tf.data.Dataset:
    """Return batches of random ids: `num_sentences` pairs, or of 1000 batches if not given."""
    num_pairs = settings.num_sentences or 1000 * settings.sentences_per_batch
    pairs = make_synthetic_pairs(num_pairs, vocab_size, settings.max_length)
    return batches_of_pairs(pairs, settings)
