"""What tests of the trainer share: sentences of simple words, and runs of the program."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

SUBJECTS = {
    "the cat": "die Katze",
    "my old friend": "mein alter Freund",
    "she": "sie",
    "a man from Bremen": "ein Mann aus Bremen",
}
VERBS = {"sees": "sieht", "finds": "findet", "buys": "kauft"}
OBJECTS = {
    "a house": "ein Haus",
    "the sea": "das Meer",
    "bread and water": "Brot und Wasser",
    "nothing": "nichts",
    "the ticket that I have lost": "die Karte, die ich verloren habe",
}
TIMES = {"": "", " today": " heute", " in the evening": " am Abend", " again": " wieder"}


class Folder(NamedTuple):
    """Files of a small translation task.

    Attributes:
        data: Folder with `train.en`, `train.de`, and `dev.en`, `dev.de`.
        vocabulary: Subwords of both languages.
    """

    data: Path
    vocabulary: Path

    @property
    def flags(self) -> list[str]:
        """Flags that every run of a test has."""
        return [
            f"--data_dir={self.data}",
            f"--vocab_file={self.vocabulary}",
            "--param_set=tiny",
            "--num_hidden_layers=1",
            "--max_length=24",
            "--batch_size=240",
            "--learning_rate=0.2",
            "--learning_rate_warmup_steps=8",
            "--verbose=0",
            "--no-enable_time_history",
        ]

    @property
    def bleu_flags(self) -> list[str]:
        """Flags that have the dev split translated."""
        return [
            f"--bleu_source={self.data / 'dev.en'}",
            f"--bleu_ref={self.data / 'dev.de'}",
            "--decode_batch_size=3",
            "--decode_max_length=24",
        ]


def write_folder(folder: Path, num_train: int, num_dev: int) -> Folder:
    """Write sentences, and a vocabulary of the subwords in them.

    Args:
        folder: Where.
        num_train: Pairs for training, at most 240.
        num_dev: The first of these are the dev split, too.
    """
    from models.transformer.subtoken_training import train_subtokens
    from models.transformer.subtoken_vocabulary import format_subtoken_file

    parts = itertools.product(*(part.items() for part in (SUBJECTS, VERBS, OBJECTS, TIMES)))
    pairs = [sentence_pair(*each) for each in parts]
    pairs = pairs[:: max(1, len(pairs) // num_train)][:num_train]
    for split, number in (("train", num_train), ("dev", num_dev)):
        for position, language in enumerate(("en", "de")):
            text = "".join(f"{pair[position]}\n" for pair in pairs[:number])
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    vocabulary = folder / "vocabulary"
    lines = [line for pair in pairs for line in pair]
    vocabulary.write_bytes(format_subtoken_file(train_subtokens(lines, 120)))
    return Folder(folder, vocabulary)


def sentence_pair(
    subject: tuple[str, str], verb: tuple[str, str], what: tuple[str, str], time: tuple[str, str]
) -> tuple[str, str]:
    """Return a sentence and its translation, in which the time comes after the verb."""
    english = f"{subject[0]} {verb[0]} {what[0]}{time[0]}."
    return english, f"{subject[1]} {verb[1]}{time[1]} {what[1]}."


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Run the program in this process; return its history and the trained weights."""
    from models.transformer.transformer_tnt import main

    history = main(argv)
    return {
        "history": {name: list(map(float, logs)) for name, logs in history.history.items()},
        "weights": [weight.numpy() for weight in history.model.weights],
    }


def run_all(*argvs: Sequence[str]) -> list[dict[str, Any]]:
    """Run the program several times, one after the other."""
    return [run(argv) for argv in argvs]
