"""Sentences become batches: which ones, in which order, how large, on which rank."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from models.transformer.data.batching import BatchSettings, bucket_lengths
from models.transformer.data.folder import load_dataset, load_synthetic_dataset, read_sentences
from models.transformer.data.parallel_text import read_parallel_text
from models.transformer.data.records import find_records, read_records, write_records
from models.transformer.data.sentence_pairs import (
    SentencePairs,
    batches_of_pairs,
    encode_pairs,
    join_sequences,
)
from models.transformer.data.synthetic import make_synthetic_pairs
from models.transformer.special_tokens import EOS, PAD
from models.transformer.subtoken_vocabulary import ESCAPES, SubtokenVocabulary

SOURCES = [f"the house {number}" for number in range(20)]
TARGETS = [f"das Haus {number}" for number in range(20)]


@pytest.fixture(scope="module")
def vocabulary():
    return SubtokenVocabulary(sorted(ESCAPES | set("the ousdaH")))


def make_pairs(lengths):
    """Pairs whose ids tell their number; targets are one longer than inputs."""
    inputs = [[number + 2] * length for number, length in enumerate(lengths)]
    return SentencePairs(join_sequences(inputs), join_sequences([[*ids, ids[0]] for ids in inputs]))


def batches_of(pairs, **settings):
    settings = BatchSettings(**{"max_length": 8, "batch_tokens": 32, **settings})
    dataset = batches_of_pairs(pairs, settings)
    batches = list(dataset.as_numpy_iterator())
    assert len(batches) == dataset.cardinality()
    return batches


def numbers_of(batches):
    """Numbers of the pairs of each batch."""
    return [[row[0] - 2 for row in inputs] for (inputs, _), _ in batches]


def test_batches_of_fixed_length_are_padded_and_hold_a_number_of_tokens():
    batches = batches_of(make_pairs([1, 2, 3, 4, 5]), shuffle_seed=None)
    assert [inputs.shape for (inputs, _), _ in batches] == [(4, 8), (1, 8)]
    (inputs, targets), labels = batches[0]
    assert inputs.dtype == targets.dtype == np.int64
    np.testing.assert_array_equal(targets, labels)
    np.testing.assert_array_equal(inputs[1], [3, 3, EOS, PAD, PAD, PAD, PAD, PAD])
    np.testing.assert_array_equal(targets[1], [3, 3, 3, EOS, PAD, PAD, PAD, PAD])


def test_a_remainder_is_dropped_on_request():
    batches = batches_of(make_pairs([1, 2, 3, 4, 5]), shuffle_seed=None, drop_remainder=True)
    assert numbers_of(batches) == [[0, 1, 2, 3]]


def test_pairs_with_a_long_side_are_left_out_after_they_are_counted():
    pairs = make_pairs([7, 1, 6, 2, 1])  # with the end, targets have 9, 3, 8, 4, 3
    batches = batches_of(pairs, shuffle_seed=None, num_sentences=4)
    assert numbers_of(batches) == [[1, 2, 3]]


def test_nothing_short_enough_is_an_error_with_the_remedy():
    with pytest.raises(ValueError, match=r"None of 2 pairs .* raise the maximum length"):
        batches_of(make_pairs([8, 9]))


def test_batches_of_which_none_is_full_are_refused_if_only_full_ones_count():
    with pytest.raises(ValueError, match=r"3 pairs .* do not fill a batch of 32 tokens"):
        batches_of(make_pairs([1, 2, 3]), drop_remainder=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_tokens": 7, "max_length": 8}, "has no room"),
        ({"batch_tokens": 7, "max_length": 0}, "need room"),
        ({"batch_tokens": 8, "max_length": 8, "num_sentences": 0}, "At least one"),
        ({"batch_tokens": 8, "max_length": 8, "rank": 2, "num_ranks": 2}, "no rank 2 of 2"),
    ],
)
def test_settings_without_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BatchSettings(**settings)


def test_a_seed_fixes_the_order_and_each_epoch_has_another_one():
    pairs = make_pairs([1] * 20)
    settings = BatchSettings(batch_tokens=32, max_length=8, shuffle_seed=1)
    dataset = batches_of_pairs(pairs, settings)
    first, second = (numbers_of(dataset.as_numpy_iterator()) for _ in range(2))
    assert first != second
    assert sorted(itertools.chain(*first)) == sorted(itertools.chain(*second)) == list(range(20))
    assert numbers_of(batches_of(pairs, shuffle_seed=1)) == first
    assert numbers_of(batches_of(pairs, shuffle_seed=2)) != first


def test_buckets_hold_similar_lengths_and_about_as_many_tokens_each():
    lengths = np.random.default_rng(0).integers(1, 62, 300)
    batches = batches_of(make_pairs(lengths), bucketed=True, max_length=64, batch_tokens=256)
    assert sorted(itertools.chain(*numbers_of(batches))) == list(range(300))
    allowed = bucket_lengths(64)
    for (inputs, targets), _ in batches:
        length = targets.shape[1]
        assert inputs.shape == targets.shape
        assert length in allowed
        assert len(targets) <= 256 // length
        longest = (targets != PAD).sum(axis=1)
        assert longest.max() <= length
        assert longest.min() > max([0, *(each for each in allowed if each < length)])


def test_full_buckets_alone_remain_on_request():
    pairs = make_pairs([1] * 9 + [60])
    batches = batches_of(
        pairs, bucketed=True, max_length=64, batch_tokens=64, shuffle_seed=None, drop_remainder=True
    )
    assert numbers_of(batches) == [list(range(8)), [9]]


@given(st.integers(1, 300))
def test_buckets_reach_to_the_longest_length(max_length):
    lengths = bucket_lengths(max_length)
    assert lengths[-1] == max_length
    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize("bucketed", [False, True])
@pytest.mark.parametrize("num_ranks", [2, 3, 7])
def test_ranks_that_share_by_themselves_have_every_nth_row_of_each_batch(bucketed, num_ranks):
    pairs = make_pairs([1, 2, 3, 4, 5, 6] * 3)
    options = {"bucketed": bucketed, "batch_tokens": 40}
    batches = numbers_of(batches_of(pairs, **options))
    parts = [
        numbers_of(batches_of(pairs, **options, num_ranks=num_ranks, rank=rank))
        for rank in range(num_ranks)
    ]
    for rank, part in enumerate(parts):
        assert part == [batch[rank::num_ranks] for batch in batches]


def test_records_give_the_pairs_that_were_written(tmp_path):
    pairs = make_pairs([1, 2, 3, 4, 5, 6])
    written = write_records(pairs, tmp_path, "train", 2)
    assert [path.name for path in written] == [
        "wmt32k-train-00001-of-00002",
        "wmt32k-train-00002-of-00002",
    ]
    assert sorted(tmp_path.iterdir()) == written
    for side, expected in zip(read_records(written), pairs, strict=True):
        for position, number in enumerate([0, 2, 4, 1, 3, 5]):
            np.testing.assert_array_equal(side[position], expected[number])


def test_records_are_shuffled_once_when_written_and_anew_in_each_epoch(tmp_path):
    pairs = make_pairs([1] * 30)
    write_records(pairs, tmp_path, "train", 3, shuffle_seed=1)
    in_order = BatchSettings(batch_tokens=64, max_length=8, shuffle_seed=None)
    shuffled = BatchSettings(batch_tokens=64, max_length=8)
    written = numbers_of(load_dataset(tmp_path, "train", in_order))
    dataset = load_dataset(tmp_path, "train", shuffled)
    epochs = [numbers_of(dataset.as_numpy_iterator()) for _ in range(2)]
    for order in (written, *epochs):
        numbers = list(itertools.chain(*order))
        assert sorted(numbers) == list(range(30))
        assert numbers != list(range(30))
    assert epochs[0] != epochs[1]
    assert numbers_of(load_dataset(tmp_path, "train", shuffled)) == epochs[0]


def test_the_number_of_batches_of_records_is_known(tmp_path):
    pairs = make_pairs(np.random.default_rng(0).integers(1, 12, 50))
    write_records(pairs, tmp_path, "train", 3)
    for options in ({}, {"bucketed": True}, {"drop_remainder": True}, {"num_sentences": 17}):
        dataset = load_dataset(tmp_path, "train", BatchSettings(32, max_length=8, **options))
        assert dataset.cardinality() == len(list(dataset)) > 1


def test_of_records_some_are_read_and_long_ones_left_out(tmp_path):
    write_records(make_pairs([7, 1, 6, 2, 1]), tmp_path, "dev", 1)
    settings = BatchSettings(32, max_length=8, num_sentences=4, shuffle_seed=None)
    assert numbers_of(load_dataset(tmp_path, "dev", settings)) == [[1, 2, 3]]


def test_records_are_told_from_other_files_by_their_first_bytes(tmp_path):
    (record,) = write_records(make_pairs([1]), tmp_path, "train", 1)
    (tmp_path / "train.en").write_text("A sentence that is longer.\n" * 9, encoding="utf-8")
    (tmp_path / "train.empty").touch()
    (tmp_path / "train.d").mkdir()
    assert find_records(tmp_path, "train") == [record]
    assert find_records(tmp_path, "dev") == []


def test_a_damaged_file_of_records_is_named(tmp_path):
    paths = write_records(make_pairs([3] * 20), tmp_path, "train", 2)
    whole = paths[1].read_bytes()
    settings = BatchSettings(32, max_length=8)
    for damaged in (whole[:-1], whole[:9], whole[:40] + b"?" + whole[41:]):
        paths[1].write_bytes(damaged)
        with pytest.raises(ValueError, match="train-00002-of-00002 ends within a record, or is"):
            load_dataset(tmp_path, "train", settings)


@pytest.mark.parametrize("ids", [[9, 1], [-1, 1]])
def test_records_of_another_vocabulary_are_refused(tmp_path, ids):
    pairs = SentencePairs(join_sequences([[3, 8]]), join_sequences([ids]))
    write_records(pairs, tmp_path, "train", 1)
    settings = BatchSettings(32, max_length=8)
    with pytest.raises(ValueError, match=r"have ids from .* and the vocabulary has 9: give"):
        load_dataset(tmp_path, "train", settings, vocab_size=9)
    assert load_dataset(tmp_path, "train", settings).cardinality() == 1


@pytest.mark.parametrize("content", ["text", {"inputs": [5, 1]}, {"inputs": [5, 1], "targets": []}])
def test_records_without_pairs_are_refused(tmp_path, content):
    def as_feature(ids):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=ids))

    record = content
    if content != "text":
        lists = {name: as_feature(ids) for name, ids in content.items()}
        record = tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()
    with tf.io.TFRecordWriter(str(tmp_path / "train")) as writer:
        writer.write(record)
    with pytest.raises(ValueError, match="are no pairs of ids"):
        load_dataset(tmp_path, "train", BatchSettings(1024))


def write_text(folder, split="train"):
    for language, sentences in {"en": SOURCES, "de": TARGETS}.items():
        (folder / f"{split}.{language}").write_text("\n".join(sentences) + "\n", encoding="utf-8")


def test_parallel_text_is_encoded_in_the_asked_direction(tmp_path, vocabulary):
    write_text(tmp_path)
    settings = BatchSettings(batch_tokens=1000, max_length=40, shuffle_seed=None)
    for source, target in (("en", "de"), ("de", "en")):
        dataset = load_dataset(
            tmp_path, "train", settings, vocabulary, source_language=source, target_language=target
        )
        ((inputs, targets), _), *_ = dataset.as_numpy_iterator()
        texts = {"en": SOURCES[3], "de": TARGETS[3]}
        assert vocabulary.decode(inputs[3]) == texts[source]
        assert vocabulary.decode(targets[3]) == texts[target]


def test_empty_lines_are_left_out_with_their_translations(tmp_path):
    (tmp_path / "dev.en").write_bytes(b"one\r\n\r\nthree\xe2\x80\xa8four\r\n")
    (tmp_path / "dev.de").write_text("eins\nzwei\ndrei\n", encoding="utf-8")
    assert read_sentences(tmp_path, "dev") == (["one", "three\u2028four"], ["eins", "drei"])


def test_texts_of_unequal_length_are_refused(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "b").write_text("eins", encoding="utf-8")
    with pytest.raises(ValueError, match=r"2 lines and .* 1: they are no translations"):
        read_parallel_text(tmp_path / "a", tmp_path / "b")


def test_texts_without_a_pair_are_refused(tmp_path, vocabulary):
    for language in ("en", "de"):
        (tmp_path / f"train.{language}").write_text(" \n")
    with pytest.raises(ValueError, match="no pair of sentences of which both have text"):
        load_dataset(tmp_path, "train", BatchSettings(64, 8), vocabulary)


def test_a_text_that_is_no_utf8_is_named_with_the_line(tmp_path):
    (tmp_path / "train.en").write_bytes(b"one\ncaf\xe9\n")
    (tmp_path / "train.de").write_bytes(b"eins\nCafe\n")
    with pytest.raises(ValueError, match=r"Line 2 of .*train.en is no UTF-8"):
        read_sentences(tmp_path, "train")


def test_missing_shards_are_noticed_and_empty_ones_are_not_missing(tmp_path):
    pairs = make_synthetic_pairs(2, 9, 5)
    paths = write_records(pairs, tmp_path, "train", 3)
    assert find_records(tmp_path, "train") == paths
    assert read_records(paths).num_pairs == 2
    paths[1].unlink()
    with pytest.raises(FileNotFoundError, match="holds 2 of the 3 files of wmt32k-train-00001"):
        find_records(tmp_path, "train")


def test_a_folder_without_data_says_what_it_may_hold(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"neither TFRecords \(\*train\*\), nor train.en"):
        load_dataset(tmp_path, "train", BatchSettings(1024))


def test_sentences_without_a_vocabulary_are_an_error_with_the_remedy(tmp_path):
    write_text(tmp_path)
    with pytest.raises(ValueError, match="give --vocab_file"):
        load_dataset(tmp_path, "train", BatchSettings(1024))


def test_synthetic_sequences_have_unequal_lengths_and_end():
    pairs = make_synthetic_pairs(500, vocab_size=10, max_length=6)
    for side in pairs:
        assert set(side.lengths) == set(range(1, 7))
        assert set(side.ids) == set(range(1, 10))
        for number in range(500):
            ids = side[number]
            assert ids[-1] == EOS
            assert (ids[:-1] > EOS).all()
    again = make_synthetic_pairs(500, vocab_size=10, max_length=6)
    np.testing.assert_array_equal(again.inputs.ids, pairs.inputs.ids)


def test_synthetic_batches_need_no_files():
    settings = BatchSettings(batch_tokens=32, max_length=8, num_sentences=10)
    batches = list(load_synthetic_dataset(settings, vocab_size=10))
    assert [inputs.shape[0] for (inputs, _), _ in batches] == [4, 4, 2]


def test_tensorflow_datasets_gives_wmt14(tmp_path, vocabulary):
    tfds = pytest.importorskip(
        "tensorflow_datasets", reason="reads WMT14; in the group models-data of pyproject.toml"
    )
    sizes = {"train": 20, "validation": 2, "test": 3}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="wmt14_translate",
        version="1.0.0",
        config="de-en",
        data_dir=tmp_path,
        features=tfds.features.Translation(languages=("de", "en")),
        split_datasets={
            split: tf.data.Dataset.from_tensor_slices({"en": SOURCES[:size], "de": TARGETS[:size]})
            for split, size in sizes.items()
        },
    )
    sources, targets = read_sentences(tmp_path, "train")
    assert sorted(sources) == sorted(SOURCES)
    assert [text.split()[-1] for text in sources] == [text.split()[-1] for text in targets]
    assert read_sentences(tmp_path, "train", num_pairs=5) == (sources[:5], targets[:5])
    assert len(read_sentences(tmp_path, "dev", "de", "en")[0]) == 2
    assert read_sentences(tmp_path / "wmt14_translate/de-en/1.0.0", "train") == (sources, targets)
    assert len(read_sentences(tmp_path, "test")[0]) == 3
    settings = BatchSettings(batch_tokens=1000, max_length=40, shuffle_seed=None)
    for folder in (tmp_path, tmp_path / "wmt14_translate/de-en/1.0.0"):
        ((inputs, _), _), *_ = load_dataset(folder, "train", settings, vocabulary)
        assert vocabulary.decode(inputs[0].numpy()) == sources[0]


def test_encoded_pairs_end(vocabulary):
    pairs = encode_pairs(["the house"], ["das Haus"], vocabulary)
    assert vocabulary.decode(pairs.targets[0]) == "das Haus"
    assert pairs.inputs[0][-1] == pairs.targets[0][-1] == EOS
