"""The tiny model learns a few hundred sentences by heart."""

import pytest

from models.transformer.small_translations import run, write_folder


@pytest.mark.thorough
def test_the_tiny_model_learns_sentences_by_heart(tmp_path):
    """One minute on one core."""
    folder = write_folder(tmp_path, num_train=240, num_dev=240)
    history = run(
        [
            *folder.flags,
            f"--bleu_source={tmp_path / 'train.en'}",
            f"--bleu_ref={tmp_path / 'train.de'}",
            "--decode_max_length=24",
            "--decode_batch_size=60",
            "--dropout=0",
            "--train_epochs=20",
            "--epochs_between_evals=20",
            "--distribute=none",
        ]
    )["history"]
    assert history["bleu_cased"][-1] > 60
