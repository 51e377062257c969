"""WMT14 English-German as tensorflow-datasets keeps it: `wmt14_translate/de-en`.

    tfds build wmt14_translate/de-en --data_dir FOLDER

prepares it, once and with a network. Here its files are read, and nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path

NAME = "wmt14_translate/de-en"
SPLITS = {"train": "train", "dev": "validation", "test": "test"}  # newstest2013, newstest2014
INFORMATION = "dataset_info.json"
INSTALL = "python -m pip install tensorflow-datasets"


def find_wmt14(folder: str | Path) -> Path | None:
    """Return the folder of the data set's newest version below a folder, or that folder itself."""
    if (Path(folder) / INFORMATION).is_file():
        return Path(folder)
    versions = [path.parent for path in Path(folder).glob(f"{NAME}/*/{INFORMATION}")]
    return max(versions, key=number_of_version, default=None)


def number_of_version(path: Path) -> list[int]:
    return [int(part) if part.isdecimal() else -1 for part in path.name.split(".")]


def read_wmt14(
    version: Path,
    split: str,
    source_language: str = "en",
    target_language: str = "de",
    num_pairs: int | None = None,
) -> tuple[list[str], list[str]]:
    """Return the sentences of a split in both languages, always in the same order.

    Args:
        version: What `find_wmt14` has found.
        split: `train`, `dev` (newstest2013) or `test` (newstest2014).
        source_language: `en` or `de`.
        target_language: The other one.
        num_pairs: So many are read; None reads all.

    Raises:
        ModuleNotFoundError: If tensorflow-datasets is not installed.
    """
    try:
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{version} is read by tensorflow-datasets, which is not installed: {INSTALL}"
        ) from error
    builder = tfds.builder_from_directory(version)
    part = SPLITS[split] if num_pairs is None else f"{SPLITS[split]}[:{num_pairs}]"
    sentences = builder.as_dataset(split=part, shuffle_files=False).batch(4096)
    texts: tuple[list[str], list[str]] = ([], [])
    for batch in sentences.as_numpy_iterator():
        for text, language in zip(texts, (source_language, target_language), strict=True):
            text += [sentence.decode("utf-8") for sentence in batch[language].tolist()]
    return texts
