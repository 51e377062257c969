"""Real sentences go all the way: collected, encoded, trained on, translated and scored."""

import pytest

from models.transformer import collect_corpora, prepare_data, transformer_tnt
from models.transformer.text_files import read_lines, write_lines

NUM_PAIRS = 200
TRAINING = [
    "--distribute=none",
    "--param_set=tiny",
    "--batch_size=1600",  # 40 sentences
    "--max_length=40",
    "--no-drop_remainder",
    "--dropout=0",
    "--label_smoothing=0",
    "--learning_rate=1",
    "--learning_rate_warmup_steps=200",
    "--train_epochs=60",
    "--epochs_between_evals=60",
    "--decode_max_length=40",
    "--decode_batch_size=50",
    "--verbose=0",
]


@pytest.mark.thorough
def test_the_tiny_model_learns_a_few_hundred_sentences_by_heart(tmp_path):
    corpus = tmp_path / "corpus"
    if collect_corpora.main(["--output_dir", str(corpus), "--sources", "installed"]) != 0:
        pytest.skip("no translated programs are installed on this machine, or it is no Debian")
    sides = [read_lines(corpus / f"train.{language}") for language in ("en", "de")]
    short = [pair for pair in zip(*sides, strict=True) if max(map(len, pair)) <= 80][:NUM_PAIRS]
    assert len(short) == NUM_PAIRS
    few = tmp_path / "few"
    for language, sentences in zip(("en", "de"), zip(*short, strict=True), strict=True):
        write_lines(few / f"train.{language}", sentences)
    arguments = ["--data_dir", str(few), "--output_dir", str(few)]
    prepare_data.main([*arguments, "--vocab_size=1000", "--train_shards=1"])
    history = transformer_tnt.main(
        [
            *TRAINING,
            f"--data_dir={few}",
            f"--vocab_file={few}/vocab.ende.1000",
            f"--bleu_source={few}/train.en",
            f"--bleu_ref={few}/train.de",
        ]
    ).history
    assert history["loss"][-1] < 0.1
    assert history["bleu_cased"][-1] > 60
