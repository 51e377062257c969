"""Flags of the trainer. Nothing here imports TensorFlow.

Names, short names and defaults are those of the original Tarantella and of TensorFlow's Model
Garden, with few exceptions: all sentences are trained on unless `--num_sentences` says otherwise,
the size of the vocabulary is that of `--vocab_file`, and backups are only written into a folder
that was named.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import MutableMapping, Sequence
from pathlib import Path

from models.shared.training_flags import (
    Switch,
    TrainerParser,
    add_output_flags,
    add_training_flags,
    check_tensorboard,
    non_negative_float,
    non_negative_int,
    path,
    positive_int,
    seed,
)
from models.transformer.params import PARAM_SETS, TransformerParams

DEFAULT_LOG_FOLDER = Path("/tmp/transformer_model")
DEFAULT_VOCAB_SIZE = 33786
SMALLEST_VOCABULARY = 3  # padding, end and one subword

WITHOUT_EFFECT = {
    "benchmark_logger_type": "there is no logger of benchmarks: see --step_history",
    "benchmark_test_id": "there is no logger of benchmarks: see --step_history",
    "benchmark_log_dir": "there is no logger of benchmarks: see --step_history",
    "log_steps": "steps are recorded by --enable_profiler --logging_freq",
    "gcp_project": "nothing is sent to Google's cloud",
    "bigquery_data_set": "nothing is sent to Google's cloud",
    "bigquery_run_table": "nothing is sent to Google's cloud",
    "bigquery_run_status_table": "nothing is sent to Google's cloud",
    "bigquery_metric_table": "nothing is sent to Google's cloud",
}
"""Flags that the original accepted without using them, and why they do nothing here either."""

DECIDING = (
    "auto_data_dist",
    "batch_size",
    "bucketed",
    "drop_remainder",
    "dropout",
    "label_smoothing",
    "learning_rate",
    "learning_rate_warmup_steps",
    "max_length",
    "mixed_precision",
    "num_hidden_layers",
    "num_sentences",
    "param_set",
    "seed",
    "source_language",
    "synthetic_data",
    "target_language",
)
"""Flags that a training keeps when it goes on from a backup."""

logger = logging.getLogger("transformer")


def parse_flags(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the flags; ends the program in one sentence if one makes no sense.

    Args:
        argv: Without the name of the program; by default those of the process.
    """
    parser = TrainerParser(
        prog="transformer_tnt.py",
        description="Train a Transformer to translate, on any number of ranks.",
        allow_abbrev=False,
    )
    _add_model_flags(parser)
    _add_data_flags(parser)
    _add_evaluation_flags(parser)
    add_training_flags(parser)
    _add_log_flags(parser)
    _add_runtime_flags(parser)
    _add_flags_without_effect(parser)
    flags = parser.parse_args(argv)
    _check(parser, flags)
    return flags


def params_of(flags: argparse.Namespace, vocab_size: int | None) -> TransformerParams:
    """Return the set that was chosen, with what flags change.

    Args:
        flags: Of the program.
        vocab_size: Of the vocabulary; None if there is none.

    Raises:
        SystemExit: If `--vocab_size` is smaller than the vocabulary.
    """
    if vocab_size is not None and flags.vocab_size is not None and flags.vocab_size < vocab_size:
        raise SystemExit(
            f"--vocab_size={flags.vocab_size} is smaller than the vocabulary of {vocab_size} "
            "subwords: leave the flag out."
        )
    params = PARAM_SETS[flags.param_set].replace(
        batch_size=flags.batch_size,
        max_length=flags.max_length,
        vocab_size=flags.vocab_size or vocab_size or DEFAULT_VOCAB_SIZE,
        learning_rate=flags.learning_rate,
        learning_rate_warmup_steps=flags.learning_rate_warmup_steps,
        label_smoothing=flags.label_smoothing,
        num_hidden_layers=flags.num_hidden_layers,
    )
    if flags.dropout is None:
        return params
    return params.replace(
        attention_dropout=flags.dropout,
        relu_dropout=flags.dropout,
        layer_postprocess_dropout=flags.dropout,
    )


def warn_of_flags_without_effect(flags: argparse.Namespace) -> None:
    """Say once of each such flag that was given why it does nothing."""
    for name, reason in WITHOUT_EFFECT.items():
        if getattr(flags, name) is not None:
            logger.warning("--%s has no effect: %s.", name, reason)


def set_gpu_threads(flags: argparse.Namespace, environment: MutableMapping[str, str]) -> None:
    """Tell TensorFlow, before it is imported, which threads start the work of a GPU.

    Args:
        flags: Of the program.
        environment: Of the process.
    """
    if flags.tf_gpu_thread_mode is not None:
        environment["TF_GPU_THREAD_MODE"] = flags.tf_gpu_thread_mode
    if flags.per_gpu_thread_count:
        environment["TF_GPU_THREAD_COUNT"] = str(flags.per_gpu_thread_count)


def _add_model_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model and training")
    group.add_argument(
        "-mp",
        "--param_set",
        "--mp",
        choices=sorted(PARAM_SETS),
        default="big",
        help="sizes of the model and all other parameters (params.py); default: big",
    )
    group.add_argument(
        "-te", "--train_epochs", "--te", type=positive_int, default=1, help="passes over the data"
    )
    group.add_argument(
        "-bs",
        "--batch_size",
        "--bs",
        type=positive_int,
        help="tokens per step, of all ranks together; default: that of the parameter set",
    )
    group.add_argument("--learning_rate", type=non_negative_float, help="factor of the schedule")
    group.add_argument(
        "--learning_rate_warmup_steps", type=positive_int, help="steps in which the rate rises"
    )
    group.add_argument(
        "--label_smoothing", type=_share, help="probability shared among wrong subwords"
    )
    group.add_argument("--dropout", type=_share, help="all three dropouts; 0 turns them off")
    group.add_argument(
        "--num_hidden_layers", type=positive_int, help="layers of the encoder and of the decoder"
    )
    group.add_argument("--seed", type=seed, default=42, help="of weights, dropout and the order")


def _add_data_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data")
    group.add_argument(
        "-dd",
        "--data_dir",
        "--dd",
        type=path,
        default=Path("/tmp/translate_ende"),
        help="folder with TFRecords, train.en and train.de, or wmt14_translate of TFDS",
    )
    group.add_argument("-vf", "--vocab_file", "--vf", type=path, help="subwords or sentencepiece")
    group.add_argument("--vocab_size", type=positive_int, help="number of subwords")
    group.add_argument("--source_language", default="en", help="suffix of its files")
    group.add_argument("--target_language", default="de", help="suffix of its files")
    group.add_argument(
        "-ml",
        "--max_length",
        "--ml",
        type=positive_int,
        default=256,
        help="longer sentences are left out",
    )
    group.add_argument(
        "--num_sentences", type=positive_int, help="sentences that are trained on; default: all"
    )
    group.add_argument(
        "--num_eval_sentences",
        type=positive_int,
        default=3000,
        help="sentences of the dev split, if there is one, whose loss is computed",
    )
    group.add_argument(
        "--auto_data_dist",
        action=Switch,
        default=True,
        help="Tarantella distributes batches; otherwise each rank takes its rows by itself",
    )
    group.add_argument(
        "--bucketed",
        action=Switch,
        default=False,
        help="sentences of similar length make a batch, instead of padding all to --max_length",
    )
    group.add_argument(
        "--drop_remainder",
        action=Switch,
        default=True,
        help="leave out a last batch that is not full",
    )
    group.add_argument(
        "-synth",
        "--synthetic_data",
        "--use_synthetic_data",
        "--synth",
        action=Switch,
        default=False,
        help="random subwords instead of a data folder",
    )
    group.add_argument(
        "-npc",
        "--num_parallel_calls",
        "--npc",
        type=positive_int,
        help="most threads that the input may use; default: all cores",
    )
    group.add_argument(
        "--datasets_num_private_threads",
        type=positive_int,
        help="threads of the input's own; default: those of TensorFlow",
    )


def _add_evaluation_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("evaluation")
    group.add_argument(
        "-ebe",
        "--epochs_between_evals",
        "--ebe",
        type=positive_int,
        default=1,
        help="training stops so often to translate and score",
    )
    group.add_argument("-bls", "--bleu_source", "--bls", type=path, help="text to be translated")
    group.add_argument("-blr", "--bleu_ref", "--blr", type=path, help="its translation")
    group.add_argument(
        "--evaluate_on",
        choices=["ranks", "master"],
        default="ranks",
        help="who translates: all ranks, each its part, or the master alone; with equal results",
    )
    group.add_argument(
        "--decode_batch_size", type=positive_int, default=32, help="sentences translated at once"
    )
    group.add_argument(
        "--decode_max_length",
        type=positive_int,
        default=97,
        help="subwords that sources are padded to; longer ones are not cut",
    )


def _add_log_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-md", "--md", dest="model_dir", type=path, help=argparse.SUPPRESS)
    parser.set_defaults(enable_time_history=True)
    group = parser.add_argument_group("logs and backups")
    group.add_argument(
        "--enable_checkpointing",
        action=Switch,
        default=True,
        help="write backups into --model_dir, if that is given",
    )
    group.add_argument(
        "--enable_metrics_in_training",
        action=Switch,
        default=False,
        help="log accuracies and perplexity beside the loss",
    )
    add_output_flags(group, "--enable_profiler", print_freq=50)


def _add_runtime_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("GPUs")
    group.add_argument(
        "-gt_mode",
        "--tf_gpu_thread_mode",
        "--gt_mode",
        choices=["global", "gpu_private", "gpu_shared"],
        help="threads that start the work of a GPU",
    )
    group.add_argument(
        "-pgtc",
        "--per_gpu_thread_count",
        "--pgtc",
        type=non_negative_int,
        default=0,
        help="number of these; 0: TensorFlow decides",
    )


def _add_flags_without_effect(parser: argparse.ArgumentParser) -> None:
    for name in WITHOUT_EFFECT:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)


def _check(parser: argparse.ArgumentParser, flags: argparse.Namespace) -> None:
    flags.log_dir = flags.model_dir or DEFAULT_LOG_FOLDER
    if flags.resume and flags.model_dir is None:
        parser.error("--resume needs a folder: add --model_dir=FOLDER")
    check_tensorboard(parser, flags)
    if flags.vocab_size is not None and flags.vocab_size < SMALLEST_VOCABULARY:
        parser.error(
            f"--vocab_size must be at least {SMALLEST_VOCABULARY}: padding, end and one subword. "
            f"Received: {flags.vocab_size}."
        )
    if (flags.bleu_source is None) != (flags.bleu_ref is None):
        parser.error("--bleu_source and --bleu_ref belong together: give both or none")
    if flags.bleu_source is not None and flags.vocab_file is None:
        parser.error("sentences of --bleu_source need a vocabulary: add --vocab_file=FILE")
    for name in ("vocab_file", "bleu_source", "bleu_ref"):
        path = getattr(flags, name)
        if path is not None and not path.is_file():
            parser.error(f"there is no file {path} for --{name}")
    if not flags.synthetic_data and not flags.data_dir.is_dir():
        parser.error(
            f"there is no folder {flags.data_dir}: give --data_dir=FOLDER, or --synthetic_data"
        )
    params = PARAM_SETS[flags.param_set]
    tokens = flags.batch_size or params.batch_size
    if tokens < flags.max_length:
        parser.error(
            f"a batch of {tokens} tokens has no room for a sentence of {flags.max_length}: raise "
            "--batch_size or lower --max_length"
        )


def _share(text: str) -> float:
    value = non_negative_float(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"must be at least 0 and below 1, not {text!r}")
    return value


def log_to_stderr(is_master: bool) -> None:
    """Let the master alone say what the trainer has to say."""
    logging.basicConfig(format="%(levelname)s: %(message)s")
    logger.setLevel(logging.INFO if is_master else logging.CRITICAL)


def prepare_environment(flags: argparse.Namespace) -> None:
    """Set what TensorFlow reads when it is imported."""
    set_gpu_threads(flags, os.environ)
