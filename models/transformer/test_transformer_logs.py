"""What a run prints and writes if flags ask for it."""

import json

import pytest

from models.transformer.small_translations import run

# Keras asks variables for arrays in a way that NumPy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def finished(folder):
    """A run with all logs, without a data folder."""
    return run(
        [
            "--distribute=none",
            "--synthetic_data",
            "--param_set=tiny",
            "--num_hidden_layers=1",
            "--vocab_size=30",
            "--max_length=8",
            "--batch_size=32",
            "--num_sentences=20",
            "--num_parallel_calls=1",
            "--datasets_num_private_threads=1",
            "--enable_metrics_in_training",
            "--enable_tensorboard",
            "--enable_profiler",
            "--logging_freq=2",
            "--print_freq=4",
            "--verbose=0",
            "--log_steps=5",
            f"--step_history={folder / 'steps'}",
            f"--model_dir={folder}",
        ]
    )


@pytest.mark.thorough
def test_everything_that_is_logged_is_there(finished, folder):
    names = {"accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity"}
    assert set(finished["history"]) == {"loss", *names}
    steps = [json.loads(line) for line in (folder / "steps").read_text().splitlines()]
    assert [step["step"] for step in steps] == list(range(5))
    assert list(folder.rglob("events.out.tfevents.*"))
    assert (folder / "transformer.weights.h5").is_file()
    assert not (folder / "backup").exists()
