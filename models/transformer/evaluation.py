"""Translate a text and score the translation, while a training pauses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from models.shared.distribution import Distribution
from models.transformer.special_tokens import EOS, PAD
from models.transformer.vocabulary import Vocabulary

WIDTH_STEP = 32
"""Sources that are longer than usual are padded to a multiple of this, so that few graphs are traced."""


class Translator:
    """Translates sentences in batches, which ranks may share.

    A batch is translated by one rank as it would be by any other, so the translations do not depend on
    who takes part.

    Args:
        model: Takes inputs (batch, length), returns `outputs` and `scores`; plain Keras.
        vocabulary: Of both languages.
        distribution: The ranks.
        batch_size: Sentences translated at once.
        padded_length: Subwords that sources are padded to; longer ones are padded further.
        shared: Whether ranks share the batches; otherwise the master translates all.
    """

    def __init__(
        self,
        model: keras.Model,
        vocabulary: Vocabulary,
        distribution: Distribution,
        *,
        batch_size: int,
        padded_length: int,
        shared: bool,
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._distribution = distribution
        self._batch_size = batch_size
        self._padded_length = padded_length
        self._shared = shared

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Return the translations of sentences on every rank. Collective."""
        sources = [[*self._vocabulary.encode(sentence), EOS] for sentence in sentences]
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        starts = range(0, len(order), self._batch_size)
        batches = [order[start : start + self._batch_size] for start in starts]
        if self._shared:
            rank, size = self._distribution.rank, self._distribution.size
            own = self._translate_batches(sources, batches[rank::size])
            parts = self._distribution.gather(own)
        else:
            parts = [
                self._distribution.from_master(lambda: self._translate_batches(sources, batches))
            ]
        by_number = {number: text for part in parts for number, text in part.items()}
        return [by_number[number] for number in range(len(sources))]

    def _translate_batches(
        self, sources: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]
    ) -> dict[int, str]:
        """Return the translations of some batches by the number of the sentence. Local."""
        translations = {}
        for numbers in batches:
            inputs = self._pad([sources[number] for number in numbers])
            outputs = self._model.predict_on_batch(inputs)["outputs"]
            for number, output in zip(numbers, outputs, strict=False):  # the rest is padding
                translations[number] = self._vocabulary.decode(until_end(output))
        return translations

    def _pad(self, sources: Sequence[Sequence[int]]) -> np.ndarray[Any, Any]:
        """Return sources as int64 (batch, length); rows that are missing hold an end alone."""
        longest = max(map(len, sources))
        longer = -(-longest // WIDTH_STEP) * WIDTH_STEP
        length = self._padded_length if longest <= self._padded_length else longer
        inputs = np.full((self._batch_size, length), PAD, np.int64)
        inputs[:, 0] = EOS
        for row, source in zip(inputs, sources, strict=False):
            row[: len(source)] = source
        return inputs


def until_end(output: Sequence[int]) -> list[int]:
    """Return the subwords before the end of sentence, or before padding where it has none."""
    subwords = []
    for subword in output:
        if subword in (EOS, PAD):
            break
        subwords.append(int(subword))
    return subwords


class EvaluateTranslations(keras.callbacks.Callback):
    """Every few epochs translate a text and add its scores to the logs of the epoch.

    All ranks run it. It belongs before callbacks that log.

    Args:
        score: Returns values by name, equal on all ranks. Collective.
        epochs: Numbers of epochs, from 1, after which it is called.
    """

    def __init__(self, score: Callable[[], Mapping[str, float]], epochs: Sequence[int]) -> None:
        super().__init__()
        self._score = score
        self._epochs = frozenset(epochs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the scores, if it is time. Collective."""
        if epoch + 1 in self._epochs and logs is not None:
            logs.update(self._score())


def evaluation_epochs(train_epochs: int, epochs_between_evals: int) -> list[int]:
    """Return the epochs, from 1, after which training stops to evaluate; the last one is among them.

    >>> evaluation_epochs(5, 2)
    [2, 4, 5]
    """
    return [
        min(begin + epochs_between_evals, train_epochs)
        for begin in range(0, train_epochs, epochs_between_evals)
    ]


def read_bleu_texts(source: Path, reference: Path) -> tuple[list[str], list[str]]:
    """Return the lines of a text and of its translation.

    Raises:
        ValueError: If they have unequal numbers of lines.
    """
    texts = [path.read_text(encoding="utf-8").splitlines() for path in (source, reference)]
    if len(texts[0]) != len(texts[1]):
        raise ValueError(
            f"{source} has {len(texts[0])} lines and {reference} has {len(texts[1])}: they must be "
            "translations of each other, line by line."
        )
    return texts[0], texts[1]
