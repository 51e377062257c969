"""The trainer gives the results of the serial program on any number of ranks."""

import re
import shlex

import keras  # noqa: F401  so that ranks are forks of a process that has imported TensorFlow
import numpy as np
import pytest
from run_command import run_command

from models.shared.step_history import read_steps
from models.transformer.small_translations import run, run_all, write_folder
from models.transformer.test_transformer_resuming import assert_same_bits, kill_and_resume

RUN = ["--train_epochs=5", "--epochs_between_evals=2", "--dropout=0", "--no-drop_remainder"]
BY_HAND = ["--no-auto_data_dist", "--evaluate_on=master"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """43 pairs: with 10 in a batch, the last batch has 3 and is uneven on 2 ranks."""
    return write_folder(tmp_path_factory.mktemp("translations"), num_train=43, num_dev=8)


@pytest.fixture(scope="module")
def flags(folder):
    return [*folder.flags, *folder.bleu_flags, *RUN]


@pytest.fixture(scope="module")
def serial(flags):
    return run([*flags, "--distribute=none"])


def assert_equal(of_ranks, serial):
    for actual in of_ranks:
        assert actual["history"].keys() == serial["history"].keys()
        for name, values in serial["history"].items():
            np.testing.assert_allclose(actual["history"][name], values, rtol=1e-4, err_msg=name)
        for weight, expected in zip(actual["weights"], serial["weights"], strict=True):
            np.testing.assert_allclose(weight, expected, atol=2e-4)


def test_training_stops_to_evaluate_every_two_epochs_and_at_the_end(serial):
    assert {name: len(values) for name, values in serial["history"].items()} == {
        "loss": 5,
        "val_loss": 3,
        "bleu_uncased": 3,
        "bleu_cased": 3,
    }
    assert serial["history"]["loss"][-1] < serial["history"]["loss"][0] - 1.0
    assert serial["history"]["bleu_uncased"][-1] > 30.0


@pytest.fixture(scope="module")
def on_two_ranks(pool_of, flags):
    return pool_of(2).run(run, flags)


def test_ranks_train_and_score_as_one(on_two_ranks, serial):
    assert_equal(on_two_ranks, serial)


@pytest.mark.thorough  # tests of tnt-keras kill ranks in every run
def test_ranks_that_were_killed_in_an_epoch_and_resume_end_with_the_same_bits(
    preloaded, folder, on_two_ranks, tmp_path
):
    argv = [*folder.flags, *RUN, "--backup_freq=4", f"--model_dir={tmp_path}"]
    continued = kill_and_resume(preloaded, 2, argv)
    assert_same_bits(continued, on_two_ranks, names=["loss", "val_loss"])
    assert not (tmp_path / "backup").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_train_and_score_as_one_in_both_ways_of_sharing(size, pool_of, flags, serial):
    of_ranks = pool_of(size).run(run_all, flags, [*flags, *BY_HAND])
    for way in range(2):
        assert_equal([runs[way] for runs in of_ranks], serial)


@pytest.mark.thorough
def test_ranks_of_the_launcher_share_batches_by_hand_and_the_master_evaluates(
    flags, serial, tmp_path
):
    steps = tmp_path / "steps"
    program = "models/transformer/transformer_tnt.py"
    argv = [*flags, *BY_HAND, f"--step_history={steps}"]
    finished = run_command(f"tarantella -n 2 --no-gpu -- {program} {shlex.join(argv)}")
    assert finished.status == 0, finished.messages
    summary = dict(re.findall(r"(\w+): ([0-9.]+)", finished.output.splitlines()[-1]))
    expected = {name: values[-1] for name, values in serial["history"].items()}
    assert {name: float(text) for name, text in summary.items()} == pytest.approx(
        expected, rel=1e-3
    )
    losses = np.reshape(read_steps(steps), (5, 5))
    np.testing.assert_allclose(losses[:, :4].mean(axis=1), serial["history"]["loss"], rtol=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_trains_as_in_single_precision_but_for_rounding(
    pool_of, flags, serial, precision
):
    expected = run([*flags, "--distribute=none", f"--mixed_precision={precision}"])["history"]
    np.testing.assert_allclose(expected["loss"], serial["history"]["loss"], rtol=0.1)
    for actual in pool_of(2).run(run, [*flags, f"--mixed_precision={precision}"]):
        np.testing.assert_allclose(actual["history"]["loss"], expected["loss"], rtol=0.02)
