r"""The subword vocabularies of tensor2tensor and of the Model Garden's Transformer.

A file such as `vocab.ende.32768` has one subtoken in quotes a line. A text becomes ids in three
steps, each of which can be undone, so that decoding gives the text back to the last character:

1.  It is cut into tokens, where letters and digits meet other characters. A single space between
    two tokens is left out: two tokens of letters that follow each other had one between them.
2.  In each token, characters that the vocabulary lacks are written as `\number;`, a backslash as
    `\\` and an underscore as `\u`; then an underscore ends the token.
3.  From its begin, the longest subtoken that fits is taken, again and again.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence

from models.transformer.special_tokens import EOS, PAD
from models.transformer.vocabulary import Vocabulary

RESERVED = ("<pad>", "<EOS>")  # in the order of their ids
ESCAPES = frozenset("\\_u;0123456789")
UNKNOWN = "\u3013"  # what a number that is no character becomes
QUOTES = ("'", '"')
_ESCAPED = re.compile(r"\\(?:(u)|(\\)|([0-9]+);)")


class SubtokenVocabulary(Vocabulary):
    """Ids of subtokens.

    Args:
        subtokens: Subtokens in the order of their ids, without the reserved ones.

    Raises:
        ValueError: If a subtoken is there twice, or a character that escapes need is missing.
    """

    def __init__(self, subtokens: Sequence[str]) -> None:
        self._subtokens = (*RESERVED, *subtokens)
        self._ids = {subtoken: number for number, subtoken in enumerate(self._subtokens)}
        if len(self._ids) < len(self._subtokens):
            raise ValueError("A subtoken is in the vocabulary twice.")
        self._singles = frozenset(subtoken for subtoken in subtokens if len(subtoken) == 1)
        if missing := ESCAPES - self._singles:
            raise ValueError(
                f"Without the subtokens {sorted(missing)} of one character not every text has ids."
            )
        self._alphabet = frozenset("".join(self._subtokens))
        self._longest = max(map(len, subtokens))
        self.ids_of_token = functools.lru_cache(2**20)(self._ids_of_token)

    @property
    def size(self) -> int:
        return len(self._subtokens)

    def encode(self, text: str) -> list[int]:
        return [number for token in split_text(text) for number in self.ids_of_token(token)]

    def decode(self, ids: Iterable[int]) -> str:
        escaped = "".join(self._subtokens[number] for number in ids if number not in (PAD, EOS))
        tokens = [unescape_token(token) for token in escaped.split("_") if token]
        return join_tokens(tokens)

    def cuts_of(self, escaped: str) -> list[int]:
        """Return where the subtokens of an escaped token begin."""
        ids = self._longest_matches(escaped) or ()
        lengths = (len(self._subtokens[number]) for number in ids[:-1])
        return list(itertools.accumulate(lengths, initial=0))

    def _ids_of_token(self, token: str) -> tuple[int, ...]:
        ids = self._longest_matches(escape_token(token, self._alphabet))
        if ids is None:  # a character that only occurs in longer subtokens
            ids = self._longest_matches(escape_token(token, self._singles))
        assert ids is not None  # all characters are subtokens
        return ids

    def _longest_matches(self, escaped: str) -> tuple[int, ...] | None:
        """Return ids from left to right, or None where no subtoken fits."""
        ids = []
        begin = 0
        while begin < len(escaped):
            for end in range(min(len(escaped), begin + self._longest), begin, -1):
                number = self._ids.get(escaped[begin:end])
                if number is not None:
                    break
            else:
                return None
            ids.append(number)
            begin = end
        return tuple(ids)


def is_subtoken_file(content: bytes) -> bool:
    """Whether the first line of a file is in quotes."""
    line = content[:4096].split(b"\n", 1)[0].strip()
    return len(line) >= 2 and line[:1] == line[-1:] and line[:1].decode("latin-1") in QUOTES


def parse_subtoken_file(content: bytes) -> SubtokenVocabulary:
    """Read the vocabulary of a file; the reserved subtokens come first, wherever they are there.

    Raises:
        ValueError: If a line is not in quotes, naming its number.
    """
    subtokens = []
    lines = content.decode("utf-8").split("\n")  # other ends of lines may be within subtokens
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line:
            continue
        if len(line) < 3 or line[0] != line[-1] or line[0] not in QUOTES:
            raise ValueError(
                f"Line {number} of the vocabulary is not a subtoken in quotes: {line!r}."
            )
        subtokens.append(line[1:-1])
    return SubtokenVocabulary([subtoken for subtoken in subtokens if subtoken not in RESERVED])


def format_subtoken_file(subtokens: Iterable[str]) -> bytes:
    """Return the content of a file with the reserved and these subtokens."""
    return "".join(f"'{subtoken}'\n" for subtoken in (*RESERVED, *subtokens)).encode()


def split_text(text: str) -> list[str]:
    """Cut a text into runs of letters and digits and runs of other characters.

    A run that is one space is left out, unless it begins or ends the text.
    """
    runs = ["".join(characters) for _, characters in itertools.groupby(text, is_alphanumeric)]
    ends = (0, len(runs) - 1)
    return [run for position, run in enumerate(runs) if run != " " or position in ends]


def join_tokens(tokens: Sequence[str]) -> str:
    """Put a text together again that `split_text` has cut."""
    text = "".join(tokens[:1])
    for before, token in itertools.pairwise(tokens):
        has_gap = is_alphanumeric(before[0]) and is_alphanumeric(token[0])
        text += f" {token}" if has_gap else token
    return text


@functools.cache
def is_alphanumeric(character: str) -> bool:
    """Whether a character is one of Unicode's letters or numbers."""
    return unicodedata.category(character)[0] in "LN"


def escape_token(token: str, alphabet: frozenset[str]) -> str:
    """Write a token with characters of the alphabet only, and end it with an underscore."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    known = (c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token)
    return "".join(known) + "_"


def unescape_token(escaped: str) -> str:
    """Undo `escape_token`, for a token without its last underscore."""
    return _ESCAPED.sub(_unescape, escaped)


def _unescape(match: re.Match[str]) -> str:
    underscore, backslash, number = match.groups()
    if underscore:
        return "_"
    if backslash:
        return "\\"
    try:
        return chr(int(number))
    except (OverflowError, ValueError):
        return UNKNOWN
