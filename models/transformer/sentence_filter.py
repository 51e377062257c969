"""Tell sentences from the other messages of programs: labels, formats, markup, key bindings."""

from __future__ import annotations

import re
import unicodedata

MAX_WORDS = 60
MAX_RATIO = 2.5  # of the lengths of a sentence and its translation, in characters
MIN_LETTERS = 0.6  # share of the characters, spaces aside
_MARKUP = re.compile(r"[<>{}\[\]|\\~_=@#$%^*`\x00-\x1f\x7f]|&\w|://|--|\.\.\.\S")
_SPACES = re.compile(r"\s+")


def clean(text: str) -> str:
    """Write characters in one way, and gaps as one space."""
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip()


def is_sentence(text: str, min_words: int) -> bool:
    """Whether a text consists of words, and has neither too few nor too many."""
    words = text.split()
    if not min_words <= len(words) <= MAX_WORDS or _MARKUP.search(text):
        return False
    characters = "".join(words)
    return sum(map(str.isalpha, characters)) >= MIN_LETTERS * len(characters)


def is_pair(source: str, target: str, min_words: int) -> bool:
    """Whether two texts are a sentence and its translation.

    Args:
        source: Cleaned text.
        target: Likewise; German joins words, so that it may have half as many.
        min_words: Of the source.
    """
    if source.casefold() == target.casefold():
        return False
    longer, shorter = sorted((len(source), len(target)), reverse=True)
    return (
        is_sentence(source, min_words)
        and is_sentence(target, min_words // 2)
        and longer <= MAX_RATIO * shorter
    )
