"""The command makes of sentences what the trainer reads."""

import itertools
import re
from pathlib import Path

import pytest

from models.transformer import collect_corpora, prepare_data
from models.transformer.data.batching import BatchSettings
from models.transformer.data.folder import load_dataset
from models.transformer.flags import parse_flags
from models.transformer.subtoken_vocabulary import SubtokenVocabulary
from models.transformer.text_files import read_lines, write_lines
from models.transformer.vocabulary import load_vocabulary

PARSERS = {
    "collect_corpora": collect_corpora.parse_arguments,
    "prepare_data": prepare_data.parse_arguments,
    "transformer_tnt": parse_flags,
}
PAIRS = [(f"the house number {n}", f"das Haus Nummer {n}") for n in range(30)]


def write_text(folder, *splits):
    for split in splits:
        for language, lines in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
            write_lines(folder / f"{split}.{language}", lines)


def run(folder, *options):
    folders = ["--data_dir", str(folder / "text"), "--output_dir", str(folder / "made")]
    prepare_data.main([*folders, *options])
    return sorted(path.name for path in (folder / "made").iterdir())


def sentences_in(folder, split, vocabulary):
    settings = BatchSettings(batch_tokens=640, max_length=64, shuffle_seed=None)
    return [
        (vocabulary.decode(source), vocabulary.decode(target))
        for (sources, targets), _ in load_dataset(folder, split, settings).as_numpy_iterator()
        for source, target in zip(sources, targets, strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "size", "name"),
    [("subtoken", 60, "vocab.ende.60"), ("sentencepiece", 300, "vocab.ende.300.model")],
)
def test_text_becomes_a_vocabulary_and_records(tmp_path, kind, size, name):
    write_text(tmp_path / "text", "train", "dev", "test")
    made = run(tmp_path, f"--vocab_format={kind}", f"--vocab_size={size}", "--train_shards=3")
    assert made == [
        "test.de",
        "test.en",
        name,
        "wmt32k-dev-00001-of-00001",
        "wmt32k-train-00001-of-00003",
        "wmt32k-train-00002-of-00003",
        "wmt32k-train-00003-of-00003",
    ]
    vocabulary = load_vocabulary(tmp_path / "made" / name)
    assert vocabulary.size == pytest.approx(size, abs=10)
    assert sentences_in(tmp_path / "made", "dev", vocabulary) == PAIRS
    train = sentences_in(tmp_path / "made", "train", vocabulary)
    assert sorted(train) == sorted(PAIRS)
    assert train != PAIRS
    assert read_lines(tmp_path / "made/test.de") == [target for _, target in PAIRS]


def test_the_other_direction_and_a_vocabulary_that_is_there(tmp_path, capsys):
    write_text(tmp_path / "text", "train")
    run(tmp_path, "--vocab_size=60", "--train_shards=1")
    vocab_file = tmp_path / "made/vocab.ende.60"
    before = vocab_file.read_bytes()
    options = ["--source_language=de", "--target_language=en", f"--vocab_file={vocab_file}"]
    run(tmp_path, *options, "--train_shards=1", "--num_sentences=4")
    assert vocab_file.read_bytes() == before
    assert "There are no dev sentences" in capsys.readouterr().out
    vocabulary = load_vocabulary(vocab_file)
    assert isinstance(vocabulary, SubtokenVocabulary)
    found = sentences_in(tmp_path / "made", "train", vocabulary)
    assert sorted(found) == sorted((target, source) for source, target in PAIRS[:4])


def test_two_runs_give_the_same_files(tmp_path):
    contents = []
    for name in ("first", "second"):
        write_text(tmp_path / name / "text", "train", "dev")
        run(tmp_path / name, "--vocab_size=60", "--train_shards=2")
        files = sorted((tmp_path / name / "made").iterdir())
        contents.append([path.read_bytes() for path in files])
    assert contents[0] == contents[1]


def test_errors_are_one_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(tmp_path)
    assert "there is no folder" in capsys.readouterr().err
    (tmp_path / "text").mkdir()
    with pytest.raises(SystemExit, match="has no train data: neither TFRecords"):
        run(tmp_path)
    write_text(tmp_path / "text", "train")
    with pytest.raises(SystemExit, match="ask for fewer or give more text"):
        run(tmp_path, "--vocab_format=sentencepiece", "--vocab_size=9000")
    (tmp_path / "text/train.de").write_text("nur eine Zeile\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no translations of each other, line by line"):
        run(tmp_path)


@pytest.mark.parametrize("page", ["models/transformer/DATA.md", "docs/howto/prepare_wmt14.md"])
def test_documented_commands_have_flags_that_exist(page, monkeypatch):
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    commands = re.findall(r"models/transformer/(\w+)\.py (--.*)", text)
    assert commands
    for check in ("is_dir", "is_file"):
        monkeypatch.setattr(Path, check, lambda path: True)
    for program, options in commands:
        PARSERS[program](options.split())


def test_wmt14_becomes_records_and_text_for_bleu(tmp_path):
    tfds = pytest.importorskip(
        "tensorflow_datasets", reason="reads WMT14; in the group models-data of pyproject.toml"
    )
    import tensorflow as tf

    sizes = {"train": 30, "validation": 20, "test": 10}
    languages = dict(zip(("en", "de"), map(list, zip(*PAIRS, strict=True)), strict=True))
    tfds.dataset_builders.store_as_tfds_dataset(
        name="wmt14_translate",
        version="1.0.0",
        config="de-en",
        data_dir=tmp_path / "text",
        features=tfds.features.Translation(languages=("de", "en")),
        split_datasets={
            split: tf.data.Dataset.from_tensor_slices(
                {language: sentences[:size] for language, sentences in languages.items()}
            )
            for split, size in sizes.items()
        },
    )
    run(tmp_path, "--vocab_size=60", "--train_shards=1")
    folder = tmp_path / "made"
    vocabulary = load_vocabulary(folder / "vocab.ende.60")
    assert sorted(sentences_in(folder, "train", vocabulary)) == sorted(PAIRS)
    assert sorted(sentences_in(folder, "dev", vocabulary)) == sorted(PAIRS[:20])
    pairs = zip(
        *(read_lines(folder / f"newstest2014.{name}") for name in ("en", "de")), strict=True
    )
    assert sorted(pairs) == sorted(itertools.islice(PAIRS, 10))
