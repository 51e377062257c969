"""A run that is killed and started again with --resume ends with the bits of one that was not."""

import os
import signal

import keras
import numpy as np
import pytest
from rank_pools import ENVIRONMENT

from models.transformer.small_translations import run, write_folder
from tnt_comm.testing import observe_ranks, run_ranks

pytestmark = pytest.mark.thorough
DEATH = 13  # in the third epoch of five steps each


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = write_folder(tmp_path_factory.mktemp("killed"), num_train=43, num_dev=4)
    more = ["--train_epochs=5", "--epochs_between_evals=2", "--no-drop_remainder"]
    return [*folder.flags, *folder.bleu_flags, *more, "--dropout=0.1"]


class Death(keras.callbacks.Callback):
    """Kill this process after a number of steps."""

    def __init__(self, steps):
        super().__init__()
        self.left = steps

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def run_until_killed(argv):
    from models.transformer import training_callbacks

    make_callbacks = training_callbacks.make_callbacks
    training_callbacks.make_callbacks = lambda *given: [*make_callbacks(*given), Death(DEATH)]
    run(argv)


@pytest.mark.parametrize(
    ("size", "more"),
    [(1, ["--distribute=none"]), (2, ["--backup_freq=4"]), (2, ["--no-auto_data_dist"])],
    ids=["serial", "2 ranks, backups of steps", "2 ranks, shared by hand"],
)
def test_a_killed_run_goes_on(preloaded, flags, tmp_path, size, more):
    settings = {
        "env": {**ENVIRONMENT, "TNT_TIMEOUT_S": "100"},
        "preloaded": preloaded,
        "timeout_s": 300.0,
    }
    argv = [*flags, *more]
    undisturbed = run_ranks(run, size, argv, **settings)
    argv += [f"--model_dir={tmp_path}"]
    reports = observe_ranks(run_until_killed, size, argv, **settings)
    assert -signal.SIGKILL in {report.exit_code for report in reports}
    continued = run_ranks(run, size, [*argv, "--resume"], **settings)
    for actual, expected in zip(continued, undisturbed, strict=True):
        assert actual["history"] == expected["history"]
        for weight, other in zip(actual["weights"], expected["weights"], strict=True):
            np.testing.assert_array_equal(weight, other)
    assert not (tmp_path / "backup").exists()
    assert (tmp_path / "transformer.weights.h5").is_file()
