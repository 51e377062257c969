"""Flags that all trainers share, and kinds of values. Nothing here imports TensorFlow.

A flag that is unknown, or a value that makes no sense, ends the program in one sentence before the
seconds that TensorFlow takes to load.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from models.shared.distribution import ParallelMethods

_TRUE = ("1", "true", "t", "yes", "y")
_FALSE = ("0", "false", "f", "no", "n")


class TrainerParser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, since trainers have up to seventy lines of flags."""

    def error(self, message: str) -> NoReturn:
        """End the program with exit status 2."""
        self.exit(2, f"{self.prog}: error: {message}. `--help` lists all flags.\n")


class Switch(argparse.Action):
    """A flag that is on or off: `--name`, `--no-name`, and `--name=true` as absl has it."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        long_names = [name for name in option_strings if name.startswith("--")]
        names = [*option_strings, *(f"--no-{name[2:]}" for name in long_names)]
        super().__init__(names, dest, nargs="?", **kwargs)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the value. Local."""
        is_on = not str(option_string).startswith("--no-")
        if values is not None:
            text = str(values).lower()
            if text not in (*_TRUE, *_FALSE) or not is_on:
                parser.error(f"{option_string} takes true or false, or nothing, not {values!r}")
            is_on = text in _TRUE
        setattr(namespace, self.dest, is_on)


def positive_int(text: str) -> int:
    """Return an integer of at least 1, for `type=`. Pure."""
    return _number(text, int, 1, "a whole number of at least 1")


def non_negative_int(text: str) -> int:
    """Return an integer of at least 0, for `type=`. Pure."""
    return _number(text, int, 0, "a whole number of at least 0")


def non_negative_float(text: str) -> float:
    """Return a finite number of at least 0, for `type=`. Pure."""
    return _number(text, float, 0, "a number of at least 0")


def seed(text: str) -> int:
    """Return an integer that generators of random numbers take, for `type=`. Pure."""
    expected = "a whole number of at least 0 and below 2^32"
    value: int = _number(text, int, 0, expected)
    if value >= 2**32:
        raise argparse.ArgumentTypeError(f"must be {expected}, not {text!r}")
    return value


def _number(text: str, kind: Any, least: int, expected: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be {expected}, not {text!r}")
    return value


def path(text: str) -> Path:
    """Return the path of a file or folder, for `type=`. Pure."""
    if not text:
        raise argparse.ArgumentTypeError("must name a file or folder, and is empty")
    return Path(text)


def save_frequency(text: str) -> int | str:
    """Return "epoch" or a number of steps, for `type=`. Pure."""
    return text if text == "epoch" else positive_int(text)


def add_training_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every trainer has. Local."""
    group = parser.add_argument_group("training")
    group.add_argument(
        "--distribute",
        choices=[method.value for method in ParallelMethods],
        default=ParallelMethods.TNT.value,
        help="tnt: on all ranks that the launcher started; none: plain Keras in one process",
    )
    group.add_argument(
        "--mixed_precision",
        choices=["none", "bfloat16", "float16"],
        default="none",
        help="type that layers compute in; weights stay float32",
    )
    group = parser.add_argument_group("files")
    group.add_argument(
        "--model_dir", type=path, help="folder for backups, logs and the trained model"
    )
    group.add_argument(
        "--resume",
        action=Switch,
        default=False,
        help="go on from the backup in --model_dir, if there is one",
    )
    group.add_argument(
        "--backup_freq",
        type=save_frequency,
        default="epoch",
        help="steps between backups, or `epoch`; plain Keras always takes `epoch`",
    )
    group.add_argument(
        "--enable_tensorboard",
        action=Switch,
        default=False,
        help="write losses and metrics for TensorBoard into --model_dir",
    )
    group.add_argument(
        "--step_history", type=path, help="file for the loss of each step, a line of JSON each"
    )
    group = parser.add_argument_group("clocks")
    group.add_argument(
        "--enable_time_history",
        action=Switch,
        default=False,
        help="print samples/s and the share of communication after each epoch",
    )


def add_output_flags(group: Any, profiler_switch: str, print_freq: int) -> None:
    """Add the flags for what is printed while a model is trained. Local.

    Args:
        group: Of a parser, to which they belong.
        profiler_switch: Name of the flag that turns a `RuntimeProfiler` on.
        print_freq: Steps after which it prints, if nothing else is asked for.
    """
    group.add_argument(
        "--verbose", type=int, choices=[0, 1, 2], default=2, help="as in `fit` of Keras"
    )
    group.add_argument(
        profiler_switch, action=Switch, default=False, help="print runtimes of steps and epochs"
    )
    group.add_argument(
        "--logging_freq", type=positive_int, default=10, help="steps between recorded runtimes"
    )
    group.add_argument(
        "--print_freq", type=positive_int, default=print_freq, help="steps between printed runtimes"
    )


def check_training_flags(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the program if shared flags contradict each other. Local."""
    for name in ("resume", "enable_tensorboard"):
        if getattr(arguments, name) and arguments.model_dir is None:
            parser.error(f"--{name} needs a folder: add --model_dir=FOLDER")
    check_tensorboard(parser, arguments)


def check_tensorboard(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the program if TensorBoard is wanted and missing. Local."""
    if arguments.enable_tensorboard and importlib.util.find_spec("tensorboard") is None:
        parser.error("--enable_tensorboard writes by tensorboard: `pip install tensorboard`")


def make_folders_for_results(arguments: argparse.Namespace) -> None:
    """Make the folders that flags name for results before a long training. Local.

    Args:
        arguments: With `--model_dir` and `--step_history`; with `--profile_dir` if the trainer has
            that flag.

    Raises:
        SystemExit: If one cannot be written into.
    """
    if arguments.model_dir is not None:
        _make_folder(arguments.model_dir, f"--model_dir={arguments.model_dir}")
    if getattr(arguments, "profile_dir", None) is not None:
        _make_folder(arguments.profile_dir, f"--profile_dir={arguments.profile_dir}")
    if arguments.step_history is not None:
        _make_folder(arguments.step_history.parent, f"--step_history={arguments.step_history}")
        if arguments.step_history.is_dir():
            raise SystemExit(f"--step_history={arguments.step_history} is a folder: name a file.")


def _make_folder(folder: Path, flag: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        is_writable = False
    if not is_writable:
        raise SystemExit(f"{flag}: {folder} cannot be made or written into; name another one.")
