"""Subword vocabularies: text to ids and back.

Ids 0 and 1 are those of `special_tokens`, whatever the format of the file. Formats are told apart
by what is in the file, so that `--vocab_file` takes any of them.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from pathlib import Path


class Vocabulary(abc.ABC):
    """What a model and its data need to know of a vocabulary."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of ids; they are `0 ... size - 1`."""

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without one for its end."""

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; those of padding and end are left out."""

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each of many texts."""
        return [self.encode(text) for text in texts]


def load_vocabulary(path: str | Path) -> Vocabulary:
    """Load a vocabulary file: quoted subtokens, one a line, or a model of sentencepiece.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is neither of the two.
    """
    from models.transformer import sentencepiece_vocabulary, subtoken_vocabulary

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no vocabulary file {path}. models/transformer/prepare_data.py makes one."
        )
    content = path.read_bytes()
    if subtoken_vocabulary.is_subtoken_file(content):
        return subtoken_vocabulary.parse_subtoken_file(content)
    if sentencepiece_vocabulary.is_sentencepiece_model(content):
        return sentencepiece_vocabulary.SentencePieceVocabulary(content)
    raise ValueError(
        f"{path} is no vocabulary: neither quoted subtokens, one a line (vocab.ende.32768), nor a "
        f"model of sentencepiece."
    )
