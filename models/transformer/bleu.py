"""BLEU (Papineni et al., 2002) of translations against one reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sacrebleu

from models.transformer.text_files import read_lines

TOKENIZER = "intl"  # that of mteval-v14, as the original; "13a" is that of WMT's own tables


def compute_bleu(
    translations: Sequence[str], references: Sequence[str], tokenizer: str = TOKENIZER
) -> dict[str, float]:
    """Return the BLEU of a corpus, from 0 to 100, with lower-cased and with original letters.

    Args:
        translations: One sentence each.
        references: What each should be.
        tokenizer: How sacrebleu cuts sentences into words.

    Returns:
        `bleu_uncased` and `bleu_cased`.

    Raises:
        ValueError: If there are not as many translations as references.
    """
    if len(translations) != len(references):
        raise ValueError(
            f"Each translation needs a reference. Received: {len(translations)} translations and "
            f"{len(references)} references."
        )
    return {
        key: sacrebleu.corpus_bleu(
            list(translations), [list(references)], lowercase=lowercase, tokenize=tokenizer
        ).score
        for key, lowercase in (("bleu_uncased", True), ("bleu_cased", False))
    }


def require_as_many_lines(source_file: str | Path, reference_file: str | Path) -> None:
    """Check before a long training that its translations can be scored.

    Raises:
        ValueError: If the files have different numbers of lines, or none.
    """
    num_sources, num_references = (len(read_lines(path)) for path in (source_file, reference_file))
    if num_sources != num_references:
        raise ValueError(
            f"{source_file} has {num_sources} lines and {reference_file} {num_references}: give "
            f"a reference for each sentence."
        )
    if not num_sources:
        raise ValueError(f"{source_file} has no sentence to translate: give another text.")
