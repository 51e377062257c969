"""Two texts of which line i of the one is the translation of line i of the other."""

from __future__ import annotations

from pathlib import Path

from models.transformer.text_files import read_lines


def read_parallel_text(
    source: str | Path, target: str | Path, num_pairs: int | None = None
) -> tuple[list[str], list[str]]:
    """Return the lines of two files.

    Args:
        source: UTF-8 text in the language that is translated from.
        target: Its translation, with as many lines.
        num_pairs: So many are read; None reads all.

    Raises:
        ValueError: If the numbers of lines differ, so that lines do not belong together.
    """
    texts = [read_lines(path) for path in (source, target)]
    if len(texts[0]) != len(texts[1]):
        raise ValueError(
            f"{source} has {len(texts[0])} lines and {target} {len(texts[1])}: they are no "
            f"translations of each other, line by line."
        )
    return texts[0][:num_pairs], texts[1][:num_pairs]


def drop_empty(sources: list[str], targets: list[str]) -> tuple[list[str], list[str]]:
    """Leave out pairs of which one side has no text; there are such in every corpus."""
    pairs = zip(sources, targets, strict=True)
    kept = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    return [source for source, _ in kept], [target for _, target in kept]


def find_parallel_text(
    folder: str | Path, split: str, source_language: str, target_language: str
) -> tuple[Path, Path] | None:
    """Return the two texts of a split in a folder, such as `train.en` and `train.de`, if any."""
    paths = [Path(folder) / f"{split}.{name}" for name in (source_language, target_language)]
    return (paths[0], paths[1]) if all(path.is_file() for path in paths) else None
