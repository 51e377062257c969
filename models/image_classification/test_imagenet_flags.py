"""Flags of the trainer have the original's names and defaults; wrong ones are refused at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from models.image_classification.flags import parse_arguments
from models.image_classification.train_imagenet_main import __file__ as TRAINER

DEFAULTS = {
    "data_dir": None,
    "batch_size": 128,
    "train_epochs": 90,
    "train_num_samples": 1281167,
    "val_num_samples": 50000,
    "shuffle_seed": 42,
    "val_freq": 1,
    "verbose": 2,
    "profile_dir": None,
    "profile_runtimes": False,
    "logging_freq": 10,
    "print_freq": 30,
    "distribute": "tnt",
    "model_arch": "resnet50",
    "strategy": "data",
    "drop_remainder": False,
    "image_size": 224,
    "learning_rate_scaling": "batch",
    "base_learning_rate": 0.1,
    "warmup_epochs": 5,
    "label_smoothing": 0,
    "weight_decay": 0,
    "lr_schedule": "exp_decay",
    "mixed_precision": "none",
    "resume": False,
    "model_dir": None,
    "synchronized_batch_norm": True,
    "dropout": True,
}


def parse(*flags):
    return parse_arguments(["--synthetic_data", *flags])


def test_defaults_are_those_of_the_original():
    arguments = vars(parse())
    assert {name: arguments[name] for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("flag", "name", "value"),
    [
        ("--batch_size=256", "batch_size", 256),
        ("--train_epochs=3", "train_epochs", 3),
        ("--train_num_samples=2560", "train_num_samples", 2560),
        ("--val_num_samples=256", "val_num_samples", 256),
        ("--shuffle_seed=0", "shuffle_seed", 0),
        ("--val_freq=3", "val_freq", 3),
        ("--epochs_between_evals=10", "val_freq", 10),
        ("--verbose=1", "verbose", 1),
        ("--profile_runtimes", "profile_runtimes", True),
        ("--no-profile_runtimes", "profile_runtimes", False),
        ("--logging_freq=5", "logging_freq", 5),
        ("--print_freq=7", "print_freq", 7),
        ("--distribute=none", "distribute", "none"),
        ("--model_arch=efficientnetV2B0", "model_arch", "efficientnetV2B0"),
        ("--strategy=data", "strategy", "data"),
        ("--drop_remainder", "drop_remainder", True),
        ("--no-drop_remainder", "drop_remainder", False),
        ("--image_size=32", "image_size", 32),
        ("--num_classes=10", "num_classes", 10),
        ("--lr_schedule=piecewise", "lr_schedule", "piecewise"),
        ("--base_learning_rate=0.2", "base_learning_rate", 0.2),
        ("--learning_rate_scaling=ranks", "learning_rate_scaling", "ranks"),
        ("--warmup_epochs=0", "warmup_epochs", 0),
        ("--label_smoothing=0.1", "label_smoothing", 0.1),
        ("--weight_decay=1e-4", "weight_decay", 1e-4),
        ("--zero_gamma", "zero_gamma", True),
        ("--nesterov", "nesterov", True),
        ("--num_partitions=1", "num_partitions", 1),
        ("--profile_dir=/tmp", "profile_dir", Path("/tmp")),
        ("--data_dir=/tmp", "data_dir", Path("/tmp")),
        ("--synchronized_batch_norm=false", "synchronized_batch_norm", False),
        ("--no-dropout", "dropout", False),
        ("--mixed_precision=bfloat16", "mixed_precision", "bfloat16"),
        ("--backup_freq=100", "backup_freq", 100),
        ("--enable_time_history", "enable_time_history", True),
        ("--synthetic_data=true", "synthetic_data", True),
    ],
)
def test_a_flag_sets_its_value(flag, name, value):
    assert getattr(parse(flag), name) == value


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--batch_size=0"], "must be a whole number of at least 1, not '0'"),
        (["--batch_size=many"], "must be a whole number of at least 1, not 'many'"),
        (["--base_learning_rate=nan"], "must be a number of at least 0"),
        (["--model_arch=resnet51"], "invalid choice: 'resnet51'"),
        (["--distribute=tf"], "invalid choice: 'tf'"),
        (["--strategy=all"], "use --strategy=data"),
        (["--num_pipeline_stages=2"], "leave out its stages"),
        (["--model_dir="], "must name a file or folder"),
        (["--profile_dir="], "must name a file or folder"),
        (["--image_size=31"], "resnet50 needs an --image_size of at least 32"),
        (["--batch"], "unrecognized arguments"),
        (["--drop_remainder", "--train_num_samples=100"], "no batch is full"),
        (["--label_smoothing=1"], "less than 1"),
        (["--zero_gamma", "--model_arch=efficientnetV2S"], "choose a resnet"),
        (["--resume"], "add --model_dir=FOLDER"),
        (["--enable_tensorboard"], "add --model_dir=FOLDER"),
        (["--enable_checkpoints"], "add --model_dir=FOLDER"),
        (["--nesterov=maybe"], "takes true or false"),
        (["--no-nesterov=true"], "takes true or false"),
        (["--lr_schedule=piecewise", "--warmup_epochs=31"], "before the first change"),
        (["--no-synthetic_data"], "add --data_dir=FOLDER, or --synthetic_data"),
        (["--no-synthetic_data", "--data_dir=/nowhere"], "check the path"),
    ],
)
def test_a_wrong_flag_is_refused_in_one_sentence_with_the_remedy(flags, message, capsys):
    with pytest.raises(SystemExit) as ending:
        parse(*flags)
    assert ending.value.code == 2
    last_line = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in last_line


def test_wrong_flags_are_refused_without_loading_tensorflow():
    command = [sys.executable, "-X", "importtime", TRAINER, "--batch_size=0"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 2
    assert "must be a whole number" in finished.stderr
    assert "| tensorflow" not in finished.stderr
    assert "| keras" not in finished.stderr
