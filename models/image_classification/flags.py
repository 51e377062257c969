"""Flags of the trainer: those of the original Tarantella, and what recipes need beside them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from models.image_classification.architectures import (
    APPLICATIONS,
    ARCHITECTURES,
    LEAST_IMAGE_SIZE,
    is_resnet,
)
from models.shared.training_flags import (
    Switch,
    TrainerParser,
    add_output_flags,
    add_training_flags,
    check_training_flags,
    non_negative_float,
    path,
    positive_int,
    seed,
)

DECIDING = (
    "base_learning_rate",
    "batch_size",
    "drop_remainder",
    "dropout",
    "image_size",
    "label_smoothing",
    "learning_rate_scaling",
    "lr_schedule",
    "mixed_precision",
    "model_arch",
    "nesterov",
    "num_classes",
    "shuffle_seed",
    "synchronized_batch_norm",
    "synthetic_data",
    "train_num_samples",
    "warmup_epochs",
    "weight_decay",
)
"""Flags that a training keeps when it goes on from a backup."""


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the flags as attributes; a wrong one ends the program. Local.

    Args:
        argv: By default those of the program.
    """
    parser = TrainerParser(
        prog="train_imagenet_main.py",
        description="Train a classifier of images, on one process or on all ranks of a job.",
        allow_abbrev=False,
    )
    _add_data_flags(parser)
    _add_model_flags(parser)
    _add_schedule_flags(parser)
    add_training_flags(parser)
    _add_output_flags(parser)
    arguments = parser.parse_args(argv)
    check_training_flags(parser, arguments)
    _check(parser, arguments)
    return arguments


def _add_data_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data")
    group.add_argument("--data_dir", type=path, help="folder of ImageNet, in one of three layouts")
    group.add_argument(
        "--synthetic_data", action=Switch, default=False, help="random images instead of files"
    )
    group.add_argument(
        "--batch_size", type=positive_int, default=128, help="samples of a step, of all ranks"
    )
    group.add_argument(
        "--train_num_samples", type=positive_int, default=1281167, help="samples of an epoch"
    )
    group.add_argument(
        "--val_num_samples", type=positive_int, default=50000, help="samples of a validation"
    )
    group.add_argument(
        "--shuffle_seed",
        type=seed,
        default=42,
        help="for the order of the samples, random parts of images, and weights",
    )
    group.add_argument(
        "--drop_remainder",
        action=Switch,
        default=False,
        help="leave out a last batch that is not full",
    )
    group.add_argument(
        "--image_size", type=positive_int, default=224, help="side of the images, in pixels"
    )
    group.add_argument("--num_classes", type=positive_int, default=1000)


def _add_model_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model_arch",
        choices=ARCHITECTURES,
        default="resnet50",
        metavar="NAME",
        help=", ".join(ARCHITECTURES),
    )
    group.add_argument(
        "--strategy",
        choices=["data", "all", "pipelining"],
        default="data",
        help="how ranks share the work; so far, only `data` is implemented",
    )
    for name in ("--num_pipeline_stages", "--num_partitions"):
        group.add_argument(
            name, type=positive_int, default=1, help="of pipelining, so nothing but 1 so far"
        )
    group.add_argument(
        "--synchronized_batch_norm",
        action=Switch,
        default=True,
        help="statistics over the batch of all ranks, as in a serial run; off: over each rank's "
        "samples, which is faster",
    )
    group.add_argument(
        "--dropout",
        action=Switch,
        default=True,
        help="of EfficientNets; off: they give the results of plain Keras on any number of ranks",
    )
    group.add_argument(
        "--zero_gamma",
        action=Switch,
        default=False,
        help="the last batch normalisation of residual blocks begins with factors of 0",
    )
    group.add_argument(
        "--weight_decay",
        type=non_negative_float,
        default=0.0,
        help="d of d / 2 * |w|^2 in the loss; not for batch normalisation",
    )
    group.add_argument("--label_smoothing", type=non_negative_float, default=0.0)


def _add_schedule_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("schedule")
    group.add_argument("--train_epochs", type=positive_int, default=90)
    group.add_argument(
        "--val_freq",
        "--epochs_between_evals",
        type=positive_int,
        default=1,
        help="epochs from one validation to the next",
    )
    group.add_argument(
        "--lr_schedule",
        choices=["exp_decay", "piecewise"],
        default="exp_decay",
        help="after the warm-up: times 0.97 every 2.4 epochs, or a tenth after 30, 60 and 80",
    )
    group.add_argument(
        "--base_learning_rate",
        type=non_negative_float,
        default=0.1,
        help="for 256 samples, or with --learning_rate_scaling=ranks for one rank",
    )
    group.add_argument(
        "--learning_rate_scaling",
        choices=["batch", "ranks"],
        default="batch",
        help="batch: base * batch size / 256; ranks: base * number of ranks",
    )
    group.add_argument("--warmup_epochs", type=non_negative_float, default=5.0)
    group.add_argument(
        "--nesterov", action=Switch, default=False, help="Nesterov's form of the momentum, 0.9"
    )


def _add_output_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    add_output_flags(group, "--profile_runtimes", print_freq=30)
    group.add_argument(
        "--enable_checkpoints",
        "--enable_checkpoint_and_export",
        action=Switch,
        default=False,
        help="write weights into --model_dir after each epoch",
    )
    group.add_argument(
        "--profile_dir", type=path, help="folder for TensorBoard, with a profile of steps 10 to 20"
    )


def _check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.data_dir is None and not arguments.synthetic_data:
        parser.error("images are needed: add --data_dir=FOLDER, or --synthetic_data")
    if not arguments.synthetic_data and not arguments.data_dir.is_dir():
        parser.error(f"--data_dir={arguments.data_dir} is no folder: check the path")
    if arguments.strategy != "data":
        parser.error("pipelining is not implemented: use --strategy=data")
    if (arguments.num_pipeline_stages, arguments.num_partitions) != (1, 1):
        parser.error("pipelining is not implemented: leave out its stages and partitions")
    if arguments.drop_remainder and arguments.train_num_samples < arguments.batch_size:
        parser.error(
            "no batch is full: take a --batch_size of at most --train_num_samples, or leave out "
            "--drop_remainder"
        )
    if arguments.model_arch in APPLICATIONS and arguments.image_size < LEAST_IMAGE_SIZE:
        parser.error(f"{arguments.model_arch} needs an --image_size of at least {LEAST_IMAGE_SIZE}")
    if arguments.label_smoothing >= 1:
        parser.error("--label_smoothing is a share, at least 0 and less than 1")
    if arguments.zero_gamma and not is_resnet(arguments.model_arch):
        parser.error("--zero_gamma is for residual blocks: choose a resnet, or leave it out")
    if arguments.enable_checkpoints and arguments.model_dir is None:
        parser.error("--enable_checkpoints needs a folder: add --model_dir=FOLDER")
    if arguments.warmup_epochs > 30 and arguments.lr_schedule == "piecewise":
        parser.error("the warm-up must end before the first change of the rate, after 30 epochs")
