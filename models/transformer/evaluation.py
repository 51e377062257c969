"""Translate a text and score the translation, while a training pauses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from models.shared.distribution import Distribution
from models.transformer.bleu import compute_bleu
from models.transformer.translation import Decode, translate
from models.transformer.vocabulary import Vocabulary


class BleuEvaluation:
    """Translates a text by beam search and compares it with what it should be.

    A batch is translated by one rank as it would be by any other, so that scores do not depend on
    who takes part.

    Args:
        model: Takes inputs (batch, length), returns `outputs` and `scores`; plain Keras.
        vocabulary: Of both languages.
        distribution: The ranks.
        sources: The text, a sentence each.
        references: What each should become.
        batch_size: Sentences translated at once.
        padded_length: Subwords that sources are padded to; longer ones are not cut.
        shared: Whether ranks share the batches; otherwise the master translates all.
    """

    def __init__(
        self,
        model: keras.Model,
        vocabulary: Vocabulary,
        distribution: Distribution,
        sources: Sequence[str],
        references: Sequence[str],
        *,
        batch_size: int,
        padded_length: int,
        shared: bool,
    ) -> None:
        self._model, self._vocabulary, self._distribution = model, vocabulary, distribution
        self._sources, self._references = sources, references
        self._batch_size, self._padded_length = batch_size, padded_length
        self._shared = shared

    def score(self) -> dict[str, float]:
        """Return `bleu_uncased` and `bleu_cased`, from 0 to 100, on every rank. Collective."""
        translations = self._translate_together() if self._shared else self._translate_on_master()
        return compute_bleu(translations, self._references)

    def _translate_together(self) -> list[str]:
        return self._translate(
            self._decode,
            rank=self._distribution.rank,
            num_ranks=self._distribution.size,
            gather=self._distribution.gather,
        )

    def _translate_on_master(self) -> list[str]:
        # Others get the result of each batch: nobody waits as long as a whole text takes.
        return self._translate(
            lambda inputs: self._distribution.from_master(lambda: self._decode(inputs))
        )

    def _translate(self, decode: Decode, **shares: Any) -> list[str]:
        return translate(
            self._sources,
            self._vocabulary,
            decode,
            batch_size=self._batch_size,
            max_length=self._padded_length,
            **shares,
        )

    def _decode(self, inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        outputs: np.ndarray[Any, Any] = self._model.predict_on_batch(inputs)["outputs"]
        return outputs


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
    """Return the epochs, from 1, after which training stops to evaluate, the last one included.

    >>> evaluation_epochs(5, 2)
    [2, 4, 5]
    """
    return [
        min(begin + epochs_between_evals, train_epochs)
        for begin in range(0, train_epochs, epochs_between_evals)
    ]
