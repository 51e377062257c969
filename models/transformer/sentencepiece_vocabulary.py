"""Subword vocabularies of sentencepiece (Kudo and Richardson, 2018).

They are trained such that decoding gives the text back: it is not normalised, spaces stay as they
are, and characters that are not in the vocabulary become bytes. (U+2581, by which sentencepiece
writes spaces, is the exception: it becomes a space.)
"""

from __future__ import annotations

import io
from collections.abc import Iterable

import sentencepiece

from models.transformer.special_tokens import EOS, PAD
from models.transformer.vocabulary import Vocabulary

UNKNOWN = 2  # the id of unknown characters, which only models without bytes need
MAX_TRAINING_LINES = 2_000_000


class SentencePieceVocabulary(Vocabulary):
    """Ids of pieces.

    Args:
        model: Content of a model file.

    Raises:
        ValueError: If its ids of padding and end are not those of `special_tokens`.
    """

    def __init__(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = (self._processor.pad_id(), self._processor.eos_id())
        if ids != (PAD, EOS):
            raise ValueError(
                f"The model of sentencepiece has the ids {ids} for padding and end, where this "
                f"trainer needs {(PAD, EOS)}. Train it with --pad_id={PAD} --eos_id={EOS} "
                f"--unk_id={UNKNOWN} --bos_id=-1."
            )

    @property
    def size(self) -> int:
        return int(self._processor.vocab_size())

    def encode(self, text: str) -> list[int]:
        return list(self._processor.encode(text))

    def decode(self, ids: Iterable[int]) -> str:
        return str(self._processor.decode([int(i) for i in ids if i not in (PAD, EOS)]))

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        return list(self._processor.encode(list(texts)))  # in threads of its own


def is_sentencepiece_model(content: bytes) -> bool:
    """Whether a file holds a model: a protocol buffer that sentencepiece can parse."""
    if content[:1] != b"\n":  # the tag of its first field, the list of pieces
        return False
    try:
        sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError:
        return False
    return True


def train_sentencepiece(lines: Iterable[str], size: int) -> bytes:
    """Train byte-pair encoding on text, and return the model. Deterministic.

    Of more than two million lines every k-th is taken.

    Args:
        lines: Text of all languages.
        size: Number of ids; 256 are those of bytes and 3 are special.

    Raises:
        ValueError: If the text is too small for so many pieces.
    """
    lines = [line for line in lines if line.strip()]
    step = max(1, -(-len(lines) // MAX_TRAINING_LINES))
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines[::step]),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNKNOWN,
            bos_id=-1,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            character_coverage=0.9995,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(
            f"No vocabulary of {size} pieces can be made of {len(lines)} lines; ask for fewer or "
            f"give more text. sentencepiece says: {error}"
        ) from error
    return model.getvalue()
