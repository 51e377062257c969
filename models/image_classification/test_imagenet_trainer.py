"""The trainer gives the same weights and history on 1, 2 and 3 ranks, and after being killed."""

import contextlib
import io
import json
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from rank_pools import ENVIRONMENT

from models.image_classification.flags import parse_arguments
from models.image_classification.small_datasets import cut_out, write_class_folders
from models.image_classification.train_imagenet_main import (
    build_model,
    make_callbacks,
    make_optimizer,
    train,
)
from models.image_classification.training_runs import train_and_report, train_until_killed
from models.shared.distribution import Distribution, ParallelMethods
from models.shared.step_history import read_steps
from tnt_comm.testing import observe_ranks

# Keras 3 hands variables to numpy in a way that numpy 2 warns about.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

# 21 samples in batches of 5: the last one leaves ranks without a sample.
SMALL = [
    "--model_arch=resnet8",
    "--image_size=16",
    "--num_classes=2",
    "--batch_size=5",
    "--train_num_samples=21",
    "--val_num_samples=7",
    "--train_epochs=3",
    "--val_freq=2",
    "--verbose=0",
    "--base_learning_rate=1",
    "--warmup_epochs=1",
    "--lr_schedule=piecewise",
    "--weight_decay=1e-3",
    "--label_smoothing=0.1",
    "--zero_gamma",
]
SERIAL = "--distribute=none"
SYNTHETIC = [*SMALL, "--synthetic_data", SERIAL]


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """Flags of a training on photographs in class folders."""
    folder = tmp_path_factory.mktemp("pictures")
    write_class_folders(folder / "train", cut_out(21))
    write_class_folders(folder / "val", cut_out(7, seed=1))
    return [*SMALL, f"--data_dir={folder}"]


@pytest.fixture(scope="module")
def serial_run(pool_of, flags):
    """History and weights of plain Keras."""
    [report] = pool_of(1).run(train_and_report, [*flags, SERIAL])
    return report


@pytest.fixture(scope="module")
def run_on_two_ranks(pool_of, flags):
    """Histories and weights of two ranks."""
    return pool_of(2).run(train_and_report, flags)


def assert_equal_to_rounding(reports, serial_run):
    expected_history, expected_weights = serial_run
    for history, weights in reports:
        assert history.keys() == expected_history.keys()
        for name, values in expected_history.items():
            np.testing.assert_allclose(history[name], values, rtol=1e-3, atol=1e-4, err_msg=name)
        for actual, expected in zip(weights, expected_weights, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


def assert_same_bits(report, expected):
    assert report[0] == expected[0]
    for actual, wanted in zip(report[1], expected[1], strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_training_changes_the_weights_and_is_validated_every_second_epoch(serial_run):
    history, _ = serial_run
    assert len(history["loss"]) == 3
    assert len(history["val_loss"]) == 1
    assert len(set(history["loss"])) == 3


def test_two_ranks_train_as_plain_keras_does(run_on_two_ranks, serial_run):
    assert_equal_to_rounding(run_on_two_ranks, serial_run)


@pytest.mark.thorough
def test_three_ranks_train_as_plain_keras_does(pool_of, flags, serial_run):
    assert_equal_to_rounding(pool_of(3).run(train_and_report, flags), serial_run)


@pytest.mark.thorough  # tests of tnt-keras kill ranks in every run
@pytest.mark.parametrize("backup_freq", ["epoch", "3"])
def test_ranks_that_were_killed_and_resume_end_with_the_same_bits(
    pool_of, flags, run_on_two_ranks, preloaded, tmp_path, backup_freq
):
    more = [f"--model_dir={tmp_path}", f"--backup_freq={backup_freq}", "--enable_time_history"]
    with_backups = [*flags, *more]
    reports = observe_ranks(
        train_until_killed, 2, with_backups, 8, env=ENVIRONMENT, preloaded=preloaded
    )
    assert {report.exit_code for report in reports} == {-9}
    assert any((tmp_path / "backup").iterdir())
    resumed = pool_of(2).run(train_and_report, [*with_backups, "--resume"])
    for report, expected in zip(resumed, run_on_two_ranks, strict=True):
        assert_same_bits(report, expected)
    assert not (tmp_path / "backup").exists() or not any((tmp_path / "backup").iterdir())


@pytest.mark.thorough  # a run that is stopped, and not killed, in test_serial_backup
def test_plain_keras_that_was_killed_and_resumes_ends_with_the_same_bits(
    pool_of, flags, serial_run, preloaded, tmp_path
):
    with_backups = [*flags, SERIAL, f"--model_dir={tmp_path}"]
    [report] = observe_ranks(
        train_until_killed, 1, with_backups, 8, env=ENVIRONMENT, preloaded=preloaded
    )
    assert report.exit_code == -9
    with pytest.raises(SystemExit, match="go on with --resume"):
        train(parse_arguments(with_backups))
    [resumed] = pool_of(1).run(train_and_report, [*with_backups, "--resume"])
    assert_same_bits(resumed, serial_run)
    assert not (tmp_path / "backup").exists()
    assert keras.models.load_model(tmp_path / "model.keras").optimizer.iterations == 15


class LoggedRun(NamedTuple):
    """A training of an epoch, with all that it can write and print.

    Its model could not be saved until the program was started again, which had nothing to train.
    """

    folder: Path
    output: str
    backup_was_left: bool
    history: keras.callbacks.History
    steps_were_written_once: bool


@pytest.fixture(scope="module")
def logged_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logged")
    flags = [
        *SYNTHETIC,
        "--train_epochs=1",
        "--mixed_precision=bfloat16",
        f"--model_dir={folder}",
        "--enable_tensorboard",
        "--enable_checkpoints",
        "--enable_time_history",
        "--profile_runtimes",
        "--logging_freq=2",
        "--print_freq=2",
        f"--step_history={folder / 'steps.jsonl'}",
        "--resume",
    ]

    def fail(self, path):
        raise OSError(28, "No space left on device")

    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "save", fail)
        with contextlib.redirect_stdout(output), pytest.raises(OSError, match="No space left"):
            train(parse_arguments(flags))
    backup_was_left = (folder / "backup").is_dir()
    steps = (folder / "steps.jsonl").stat()
    history = train(parse_arguments(flags))
    is_same_file = (folder / "steps.jsonl").stat() == steps
    return LoggedRun(folder, output.getvalue(), backup_was_left, history, is_same_file)


def test_files_that_flags_ask_for_are_there(logged_run):
    assert (logged_run.folder / "model.keras").is_file()
    assert (logged_run.folder / "model.ckpt-0001.weights.h5").is_file()
    assert list((logged_run.folder / "tensorboard").glob("**/events.out.tfevents*"))


def test_clocks_that_flags_ask_for_are_printed(logged_run):
    output = logged_run.output
    assert output.count("\nIteration epoch = 0") + output.startswith("Iteration") == 2
    assert "Epoch epoch = 0, size = 5, niterations = 5, epoch_runtime_s" in output
    assert "samples/s, communication 0.0 % of steps" in output


def test_a_step_history_has_the_loss_of_each_batch(logged_run):
    lines = (logged_run.folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    assert [(step["epoch"], step["step"]) for step in steps] == [(0, step) for step in range(5)]
    mean = np.mean([step["loss"] for step in steps])
    assert mean == pytest.approx(logged_run.history.history["loss"][0], rel=1e-4)


def test_a_run_that_ends_before_its_model_is_saved_keeps_its_backup(logged_run):
    """Then --resume has nothing to train, and saves the model."""
    assert logged_run.backup_was_left
    assert logged_run.history.epoch == [0]
    assert logged_run.steps_were_written_once
    assert keras.models.load_model(logged_run.folder / "model.keras") is not None
    assert not (logged_run.folder / "backup").exists()


def make(*flags):
    """Optimizer and model of some flags, for two ranks."""
    arguments = parse_arguments(["--synthetic_data", "--model_arch=resnet8", *flags])
    data = tf.data.Dataset.range(arguments.train_num_samples).batch(
        arguments.batch_size, drop_remainder=arguments.drop_remainder
    )
    return make_optimizer(arguments, data, num_ranks=2), build_model(arguments)


def test_the_schedule_counts_the_steps_that_are_made_and_scales_as_it_is_told():
    flags = ["--train_num_samples=1000", "--batch_size=128", "--base_learning_rate=0.5"]
    optimizer, _ = make(*flags)
    schedule = optimizer.get_config()["learning_rate"]["config"]
    assert schedule["initial_learning_rate"] == pytest.approx(0.25)
    assert (schedule["warmup_steps"], schedule["decay_steps"]) == (40, pytest.approx(2.4 * 8))
    assert (optimizer.momentum, optimizer.nesterov) == (0.9, False)
    more = ["--learning_rate_scaling=ranks", "--drop_remainder", "--nesterov", "--warmup_epochs=2"]
    optimizer, _ = make(*flags, *more)
    schedule = optimizer.get_config()["learning_rate"]["config"]
    assert schedule["initial_learning_rate"] == pytest.approx(1.0)
    assert schedule["warmup_steps"] == 14
    assert optimizer.nesterov


def test_fewer_pictures_than_a_batch_are_refused_if_only_full_ones_count(flags):
    words = [*flags, SERIAL, "--drop_remainder", "--batch_size=64", "--train_num_samples=64"]
    with pytest.raises(SystemExit, match="do not fill a batch of 64: lower --batch_size"):
        train(parse_arguments(words))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], True), (["--no-synchronized_batch_norm"], False), (["--distribute=none"], False)],
)
def test_batch_normalisation_is_synchronised_on_ranks_unless_switched_off(flags, expected):
    _, model = make(*flags)
    assert model.get_layer("conv1_bn").synchronized is expected


@pytest.mark.thorough
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "batch_norm", ["--synchronized_batch_norm", "--no-synchronized_batch_norm"]
)
def test_ranks_stay_equal_in_half_precision(pool_of, flags, precision, batch_norm):
    more = [f"--mixed_precision={precision}", batch_norm, "--learning_rate_scaling=ranks"]
    first, second = pool_of(2).run(train_and_report, [*flags, *more])
    assert_same_bits(second, first)
    assert np.all(np.isfinite(first[0]["loss"]))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("architecture", "num_ranks"), [("resnet50", 2), ("resnet50", 3), ("efficientnetV2B0", 2)]
)
def test_large_networks_on_ranks_take_the_first_steps_of_plain_keras(
    pool_of, flags, architecture, num_ranks
):
    more = [f"--model_arch={architecture}", "--image_size=64", "--batch_size=7", "--train_epochs=1"]
    slow = ["--base_learning_rate=0.01", "--no-dropout"]
    if architecture != "resnet50":
        slow += ["--base_learning_rate=0.001", "--no-zero_gamma"]
    argv = [*flags, *more, *slow]
    [serial] = pool_of(1).run(train_and_report, [*argv, SERIAL], timeout_s=600)
    reports = pool_of(num_ranks).run(train_and_report, argv, timeout_s=600)
    assert_equal_to_rounding(reports, serial)


def test_profile_dir_asks_for_a_profile_of_steps_10_to_20(tmp_path):
    arguments = parse_arguments([*SYNTHETIC, f"--profile_dir={tmp_path}"])
    [callback] = make_callbacks(arguments, Distribution(ParallelMethods.NONE))
    assert isinstance(callback, keras.callbacks.TensorBoard)
    assert "/tnt-20" in str(callback.log_dir)
    assert (callback._start_batch, callback._stop_batch) == (10, 20)
    assert (callback.update_freq, callback.histogram_freq) == (1, 0)


@pytest.mark.thorough
def test_steps_with_a_batch_that_is_not_full_are_left_out_if_only_full_ones_count(tmp_path):
    path = tmp_path / "steps.jsonl"
    flags = [*SYNTHETIC, "--train_epochs=1", "--drop_remainder", f"--step_history={path}"]
    history = train(parse_arguments(flags))
    losses = read_steps(path)
    assert len(losses) == 4
    assert np.mean(losses) == pytest.approx(history.history["loss"][0], rel=1e-4)
