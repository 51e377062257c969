"""Make a vocabulary of subtokens from text, such as `vocab.ende.32768`.

A subtoken is worth its place if it begins often where the text is cut so far. So, beginning with
single characters, the text is cut by the subtokens found before; at each cut, everything that
begins there is counted, up to the end of its token; and what occurs often enough becomes a
subtoken. The longest are chosen first, and take their counts away from their own beginnings, which
need not stand for them any more. After four rounds little changes. How often is often enough is
searched for such that the vocabulary gets the size that was asked for.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

from models.transformer.subtoken_vocabulary import (
    ESCAPES,
    RESERVED,
    SubtokenVocabulary,
    escape_token,
    split_text,
)

ROUNDS = 4
LONGEST = 48  # characters of a subtoken
MOST = 1000  # occurrences that are asked of a subtoken, at most
TOLERANCE = 0.01  # share of the size
SAMPLE = 20_000_000  # characters of the text that are looked at


def train_subtokens(lines: Iterable[str], size: int) -> list[str]:
    """Return subtokens, the most frequent first, without the reserved ones. Deterministic.

    Args:
        lines: Text of all languages.
        size: How many ids the vocabulary shall have. The nearest possible size is taken; a small
            text has no more than it has.
    """
    counts = count_tokens(lines)
    alphabet = ESCAPES.union(*counts)
    least, most = 1, MOST
    best: list[str] = []
    while least <= most:
        enough = (least + most) // 2
        found = choose_subtokens(counts, alphabet, enough)
        missing = size - len(found) - len(RESERVED)
        if not best or abs(missing) < abs(size - len(best) - len(RESERVED)):
            best = found
        if abs(missing) <= TOLERANCE * size:
            break
        if missing > 0:
            most = enough - 1
        else:
            least = enough + 1
    return best


def count_tokens(lines: Iterable[str]) -> dict[str, int]:
    """Count the tokens of an evenly spread part of a text."""
    lines = list(lines)
    step = max(1, -(-sum(map(len, lines)) // SAMPLE))
    counts: collections.Counter[str] = collections.Counter()
    for line in lines[::step]:
        counts.update(split_text(line))
    return dict(counts)


def choose_subtokens(counts: Mapping[str, int], alphabet: frozenset[str], enough: int) -> list[str]:
    """Return all characters, and what occurs often enough, the most frequent first.

    Args:
        counts: How often each token occurs.
        alphabet: Characters of the text and of escapes.
        enough: Occurrences of a subtoken.
    """
    escaped = {escape_token(token, alphabet): count for token, count in counts.items()}
    subtokens = sorted(alphabet)
    for _ in range(ROUNDS):
        beginnings = count_beginnings(escaped, SubtokenVocabulary(subtokens))
        subtokens = keep_frequent(beginnings, alphabet, enough)
    return subtokens


def count_beginnings(
    escaped: Mapping[str, int], vocabulary: SubtokenVocabulary
) -> collections.Counter[str]:
    """Count all that begins where subtokens of tokens begin."""
    beginnings: collections.Counter[str] = collections.Counter()
    for token, count in escaped.items():
        for begin in vocabulary.cuts_of(token):
            for end in range(begin + 1, min(len(token), begin + LONGEST) + 1):
                beginnings[token[begin:end]] += count
    return beginnings


def keep_frequent(
    beginnings: collections.Counter[str], alphabet: frozenset[str], enough: int
) -> list[str]:
    """Choose subtokens, the longest first, and return them by falling count."""
    chosen = {}
    frequent = [text for text, count in beginnings.items() if count >= enough]
    for text in sorted(frequent, key=len, reverse=True):
        count = beginnings[text]
        if count < enough or text in RESERVED:
            continue
        for end in range(1, len(text)):
            beginnings[text[:end]] -= count
        if text not in alphabet:
            chosen[text] = count
    chosen |= {character: beginnings[character] for character in alphabet}
    return sorted(chosen, key=lambda text: (-chosen[text], text))
