"""A run that is killed and started again with --resume ends with the bits of one that was not."""

import signal

import keras  # noqa: F401  so that ranks are forks of a process that has imported TensorFlow
import numpy as np
import pytest
from rank_pools import ENVIRONMENT

from models.shared.kill_after import KillAfter
from models.transformer.small_translations import run, write_folder
from tnt_comm.testing import observe_ranks, run_ranks

DEATH = 8  # in the second epoch of five steps each


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("killed"), num_train=43, num_dev=4)


@pytest.fixture(scope="module")
def flags(folder):
    more = ["--train_epochs=3", "--epochs_between_evals=2", "--no-drop_remainder"]
    return [*folder.flags, *more, "--dropout=0.1"]


def run_until_killed(argv):
    from models.transformer import training_callbacks

    make_callbacks = training_callbacks.make_callbacks
    training_callbacks.make_callbacks = lambda *given: [*make_callbacks(*given), KillAfter(DEATH)]
    run(argv)


def settings_of(preloaded):
    env = {**ENVIRONMENT, "TNT_TIMEOUT_S": "300"}
    return {"env": env, "preloaded": preloaded, "timeout_s": 600.0}


def kill_and_resume(preloaded, size, argv):
    """Return what ranks report that go on where others were killed."""
    settings = settings_of(preloaded)
    reports = observe_ranks(run_until_killed, size, argv, **settings)
    assert -signal.SIGKILL in {report.exit_code for report in reports}
    return run_ranks(run, size, [*argv, "--resume"], **settings)


def assert_same_bits(continued, undisturbed, names):
    for actual, expected in zip(continued, undisturbed, strict=True):
        assert actual["history"].keys() == set(names)
        for name in names:
            assert actual["history"][name] == expected["history"][name]
        for weight, other in zip(actual["weights"], expected["weights"], strict=True):
            np.testing.assert_array_equal(weight, other)


@pytest.mark.thorough  # two ranks with scores in test_transformer_training
@pytest.mark.parametrize(
    ("size", "scores", "more"),
    [
        pytest.param(2, False, ["--backup_freq=4"], id="2 ranks, backups of steps"),
        pytest.param(1, True, ["--distribute=none"], id="serial"),
        pytest.param(2, True, ["--no-auto_data_dist"], id="2 ranks, by hand"),
    ],
)
def test_a_killed_run_goes_on(preloaded, folder, flags, tmp_path, size, scores, more):
    argv = [*flags, *more, *(folder.bleu_flags if scores else [])]
    undisturbed = run_ranks(run, size, argv, **settings_of(preloaded))
    continued = kill_and_resume(preloaded, size, [*argv, f"--model_dir={tmp_path}"])
    assert_same_bits(continued, undisturbed, names=[*undisturbed[0]["history"]])
    assert not (tmp_path / "backup").exists()
    assert (tmp_path / "transformer.weights.h5").is_file()
