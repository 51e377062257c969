"""Draw the loss of a ResNet over its steps, of plain Keras and of two ranks on each other.

    python models/image_classification/draw_curves.py --output=curves.svg

Trains on pictures that are cut out of two photographs of scikit-learn. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it runs from anywhere

from models.shared.training_flags import positive_int

TRAINER = Path(__file__).with_name("train_imagenet_main.py")
FLAGS = (
    "--num_classes=2",
    "--batch_size=32",
    "--lr_schedule=piecewise",
    "--warmup_epochs=2",
    "--base_learning_rate=0.1",
    "--weight_decay=1e-4",
    "--zero_gamma",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Train twice and draw."""
    parser = argparse.ArgumentParser(description="Draw losses of plain Keras and of two ranks.")
    parser.add_argument("--output", type=Path, default=Path("curves.svg"))
    parser.add_argument("--model_arch", default="resnet20")
    parser.add_argument("--image_size", type=positive_int, default=32)
    parser.add_argument("--num_samples", type=positive_int, default=400)
    parser.add_argument("--train_epochs", type=positive_int, default=6)
    arguments = parser.parse_args(argv)

    from models.image_classification.small_datasets import cut_out, write_class_folders
    from models.shared.compared_runs import draw_both_runs

    with tempfile.TemporaryDirectory() as folder:
        write_class_folders(Path(folder, "train"), cut_out(arguments.num_samples))
        write_class_folders(Path(folder, "val"), cut_out(arguments.num_samples // 4, seed=1))
        sizes = [
            f"--{name}={getattr(arguments, name)}"
            for name in ("model_arch", "image_size", "train_epochs")
        ]
        draw_both_runs(
            TRAINER,
            [*FLAGS, *sizes, f"--data_dir={folder}"],
            arguments.output,
            title=f"{arguments.model_arch}, {arguments.image_size} pixels, batches of 32",
        )


if __name__ == "__main__":
    main()
