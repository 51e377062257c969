"""Read gettext's compiled catalogues of messages (`.mo`), of which programs take translations.

The layout is in the manual of GNU gettext, "The Format of GNU MO Files".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

MAGIC = 0x950412DE
CONTEXT_END = "\x04"  # between the context of a message and its text
FORMS_BREAK = "\0"  # between the singular and the plural
_CHARSET = re.compile(r"charset=([\w.:-]+)", re.IGNORECASE)


def read_catalogue(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the messages of a catalogue with their translations.

    Of messages with a plural the singular is taken; contexts are left out, and so are messages that
    are not translated.

    Args:
        content: Of the file.

    Raises:
        ValueError: If it is no catalogue, or damaged.
    """
    try:
        messages = [(raw, other) for raw, other in read_raw_pairs(content)]
        charset = next((charset_of(other) for raw, other in messages if not raw), "utf-8")
        decoded = [(raw.decode(charset), other.decode(charset)) for raw, other in messages]
    except (struct.error, LookupError, UnicodeDecodeError) as error:
        raise ValueError(f"The catalogue is damaged: {error}") from error
    for message, translation in decoded:
        text = message.rpartition(CONTEXT_END)[2].partition(FORMS_BREAK)[0]
        singular = translation.partition(FORMS_BREAK)[0]
        if text and singular:
            yield text, singular


def read_raw_pairs(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield original and translation of each entry, in the encoding of the file."""
    for order in "<>":
        if len(content) >= 4 and struct.unpack_from(f"{order}I", content)[0] == MAGIC:
            break
    else:
        raise ValueError("This is no compiled catalogue of gettext.")
    _, number, originals, translations = struct.unpack_from(f"{order}4I", content, 4)
    for entry in range(number):
        texts = []
        for table in (originals, translations):
            length, begin = struct.unpack_from(f"{order}2I", content, table + 8 * entry)
            if begin + length > len(content):
                raise ValueError("The catalogue is damaged: a text goes beyond its end.")
            texts.append(content[begin : begin + length])
        yield texts[0], texts[1]


def charset_of(header: bytes) -> str:
    """Return the encoding that the header of a catalogue names."""
    match = _CHARSET.search(header.decode("ascii", "replace"))
    return match[1] if match else "utf-8"
