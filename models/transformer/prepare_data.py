"""Make a vocabulary and TFRecords from sentences: what the trainer reads fastest.

    python models/transformer/prepare_data.py --data_dir ~/tensorflow_datasets --output_dir wmt14

reads WMT14 English-German of tensorflow-datasets, or `train.en` and `train.de`, `dev.en` and
`dev.de`, and writes into `--output_dir`

    vocab.ende.32768                    subwords of both languages (unless --vocab_file is given)
    wmt32k-train-00001-of-00100 ...     pairs for training, mixed once
    wmt32k-dev-00001-of-00001           pairs for validation
    newstest2014.en, newstest2014.de    sentences for BLEU (test.en, test.de of plain text)

so that `transformer_tnt.py --data_dir wmt14 --vocab_file wmt14/vocab.ende.32768 --bleu_source
wmt14/newstest2014.en --bleu_ref wmt14/newstest2014.de` trains and scores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from models.shared.atomic_write import write_atomically
from models.shared.training_flags import non_negative_int, positive_int
from models.transformer.text_files import write_lines
from models.transformer.vocabulary import Vocabulary, load_vocabulary

Texts = tuple[list[str], list[str]]


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data_dir", type=Path, required=True, help="folder with sentences")
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for what is made")
    parser.add_argument("--vocab_file", type=Path, help="take this vocabulary instead of a new one")
    parser.add_argument("--vocab_size", type=positive_int, default=32768, help="of a new one")
    parser.add_argument(
        "--vocab_format",
        choices=["subtoken", "sentencepiece"],
        default="subtoken",
        help="of a new one: that of vocab.ende.32768, or a model of sentencepiece",
    )
    parser.add_argument("--source_language", default="en", help="that is translated from")
    parser.add_argument("--target_language", default="de", help="that is translated to")
    parser.add_argument(
        "--num_sentences", type=positive_int, help="pairs for training; default all"
    )
    parser.add_argument("--train_shards", type=positive_int, default=100, help="files for training")
    parser.add_argument("--dev_shards", type=positive_int, default=1, help="files for validation")
    parser.add_argument(
        "--shuffle_seed", type=non_negative_int, default=42, help="of training pairs"
    )
    arguments = parser.parse_args(argv)
    if not arguments.data_dir.is_dir():
        parser.error(f"there is no folder {arguments.data_dir}: give --data_dir=FOLDER")
    return arguments


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(argv)
    try:
        prepare(arguments)
    except (FileNotFoundError, ModuleNotFoundError, ValueError) as error:
        raise SystemExit(f"prepare_data.py: {error}") from error


def prepare(arguments: argparse.Namespace) -> None:
    """Write all that can be made of the sentences that are there."""
    train = read_split(arguments, "train", arguments.num_sentences)
    vocabulary = find_vocabulary(arguments, train)
    write_split(arguments, "train", train, vocabulary)
    for split in ("dev", "test"):
        try:
            sentences = read_split(arguments, split)
        except FileNotFoundError:
            print(f"There are no {split} sentences.")
            continue
        if split == "dev":
            write_split(arguments, split, sentences, vocabulary)
        else:
            write_test_text(arguments, sentences)


def read_split(arguments: argparse.Namespace, split: str, num_pairs: int | None = None) -> Texts:
    from models.transformer.data.folder import read_sentences

    languages = (arguments.source_language, arguments.target_language)
    return read_sentences(arguments.data_dir, split, *languages, num_pairs)


def find_vocabulary(arguments: argparse.Namespace, sentences: Texts) -> Vocabulary:
    """Load the vocabulary that was named, or make one of the training sentences."""
    if arguments.vocab_file is not None:
        return load_vocabulary(arguments.vocab_file)
    languages = arguments.source_language + arguments.target_language
    lines = [line for text in sentences for line in text]
    if arguments.vocab_format == "sentencepiece":
        from models.transformer.sentencepiece_vocabulary import train_sentencepiece

        path = arguments.output_dir / f"vocab.{languages}.{arguments.vocab_size}.model"
        content = train_sentencepiece(lines, arguments.vocab_size)
    else:
        from models.transformer.subtoken_training import train_subtokens
        from models.transformer.subtoken_vocabulary import format_subtoken_file

        path = arguments.output_dir / f"vocab.{languages}.{arguments.vocab_size}"
        content = format_subtoken_file(train_subtokens(lines, arguments.vocab_size))
    write_atomically(path, content)
    vocabulary = load_vocabulary(path)
    print(f"{path}: {vocabulary.size} subwords")
    return vocabulary


def write_split(
    arguments: argparse.Namespace, split: str, sentences: Texts, vocabulary: Vocabulary
) -> None:
    from models.transformer.data.records import write_records
    from models.transformer.data.sentence_pairs import encode_pairs

    pairs = encode_pairs(*sentences, vocabulary)
    is_train = split == "train"
    paths = write_records(
        pairs,
        arguments.output_dir,
        split,
        arguments.train_shards if is_train else arguments.dev_shards,
        arguments.shuffle_seed if is_train else None,
    )
    print(f"{paths[0]} ...: {pairs.num_pairs} pairs in {len(paths)} files")


def write_test_text(arguments: argparse.Namespace, sentences: Texts) -> None:
    from models.transformer.data.parallel_text import find_parallel_text

    languages = (arguments.source_language, arguments.target_language)
    is_text = find_parallel_text(arguments.data_dir, "test", *languages)
    name = "test" if is_text else "newstest2014"
    for language, text in zip(languages, sentences, strict=True):
        write_lines(arguments.output_dir / f"{name}.{language}", text)
    print(f"{arguments.output_dir / name}.*: {len(sentences[0])} sentences for BLEU")


if __name__ == "__main__":
    main()
