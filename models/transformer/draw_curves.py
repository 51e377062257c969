"""Draw the loss of a Transformer over its steps, of plain Keras and of two ranks on each other.

    python models/transformer/draw_curves.py --output=curves.svg

Trains the tiny model on 240 sentences of simple words. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it runs from anywhere

from models.shared.training_flags import positive_int

TRAINER = Path(__file__).with_name("transformer_tnt.py")


def main(argv: Sequence[str] | None = None) -> None:
    """Train twice and draw."""
    parser = argparse.ArgumentParser(description="Draw losses of plain Keras and of two ranks.")
    parser.add_argument("--output", type=Path, default=Path("curves.svg"))
    parser.add_argument("--train_epochs", type=positive_int, default=8)
    arguments = parser.parse_args(argv)

    from models.shared.compared_runs import draw_both_runs
    from models.transformer.small_translations import write_folder

    with tempfile.TemporaryDirectory() as name:
        folder = write_folder(Path(name), num_train=240, num_dev=24)
        draw_both_runs(
            TRAINER,
            [
                *folder.flags,
                "--dropout=0",
                "--no-drop_remainder",
                f"--train_epochs={arguments.train_epochs}",
            ],
            arguments.output,
            title="Transformer (tiny), batches of 240 tokens",
        )


if __name__ == "__main__":
    main()
