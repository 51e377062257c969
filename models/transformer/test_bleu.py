"""BLEU of texts, and translations in batches that come back in order."""

import math
import threading

import numpy as np
import pytest

from models.transformer.bleu import compute_bleu, require_as_many_lines
from models.transformer.special_tokens import EOS, PAD
from models.transformer.subtoken_vocabulary import ESCAPES, SubtokenVocabulary
from models.transformer.translation import translate

SENTENCES = ["the sun is on the sea", "a ton", "", "hot", "this is the end of it", "so"]


@pytest.fixture(scope="module")
def vocabulary():
    return SubtokenVocabulary(sorted(ESCAPES | set("the sunioadfTHESUNIOADF")))


class UpperCase:
    """Stands for a model: turns each word into capitals, and writes on after the end."""

    def __init__(self, vocabulary, batch_size, length):
        self.vocabulary, self.shape = vocabulary, (batch_size, length)
        self.num_batches = 0

    def __call__(self, inputs):
        assert inputs.shape == self.shape
        assert inputs.dtype == np.int64
        self.num_batches += 1
        return np.array([self.translate(row) for row in inputs.tolist()])

    def translate(self, row):
        end = row.index(EOS)
        assert set(row[end + 1 :]) <= {PAD}
        ids = self.vocabulary.encode(self.vocabulary.decode(row[:end]).upper())
        return ids + [EOS] + [9] * (99 - len(ids))


def test_bleu_is_100_for_the_reference_and_sees_letters_only_if_cased():
    references = ["The house is on the hill .", "It is small ."]
    assert compute_bleu(references, references) == pytest.approx(
        {"bleu_uncased": 100, "bleu_cased": 100}
    )
    lower = [reference.lower() for reference in references]
    scores = compute_bleu(lower, references)
    assert scores["bleu_uncased"] == pytest.approx(100)
    assert 0 < scores["bleu_cased"] < 90


def test_bleu_is_the_geometric_mean_of_precisions_with_a_penalty_for_brevity():
    scores = compute_bleu(["the cat sat on the mat"], ["the cat sat on the mat today"])
    assert scores["bleu_cased"] == pytest.approx(100 * math.exp(1 - 7 / 6))
    scores = compute_bleu(["a cat sat on the mat"], ["the cat sat on the mat"])
    precisions = (5 / 6) * (4 / 5) * (3 / 4) * (2 / 3)
    assert scores["bleu_cased"] == pytest.approx(100 * precisions**0.25)


def test_punctuation_is_cut_from_words_as_by_the_original():
    assert compute_bleu(["„Er sagte: «Ja»…“"], ["„ Er sagte : « Ja » … “"]) == (
        pytest.approx({"bleu_uncased": 100, "bleu_cased": 100})
    )


def test_one_letter_in_another_case_lowers_the_cased_score_alone():
    scores = compute_bleu(["A b c d", "e f g h"], ["a b c d", "e f g h"])
    assert list(scores) == ["bleu_uncased", "bleu_cased"]
    assert scores["bleu_uncased"] == pytest.approx(100)
    assert scores["bleu_cased"] < 100


def test_unequal_numbers_of_lines_are_refused(tmp_path):
    (tmp_path / "two").write_text("a\nb\n", encoding="utf-8")
    (tmp_path / "one").write_text("a\n", encoding="utf-8")
    with pytest.raises(ValueError, match="2 translations and 1 references"):
        compute_bleu(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="a reference for each sentence"):
        require_as_many_lines(tmp_path / "two", tmp_path / "one")
    require_as_many_lines(tmp_path / "two", tmp_path / "two")


def test_translations_come_back_in_order_and_end_where_they_end(vocabulary):
    model = UpperCase(vocabulary, batch_size=4, length=40)
    translations = translate(SENTENCES, vocabulary, model, batch_size=4, max_length=40)
    assert translations == [sentence.upper() for sentence in SENTENCES]
    assert model.num_batches == 2


def test_longer_sentences_than_the_padding_are_not_cut(vocabulary):
    sentence = "this is the end of it"
    length = len(vocabulary.encode(sentence)) + 1
    model = UpperCase(vocabulary, batch_size=1, length=length)
    assert translate([sentence], vocabulary, model, batch_size=1, max_length=3) == [
        sentence.upper()
    ]


@pytest.mark.parametrize("num_ranks", [2, 3, 5])
def test_ranks_share_batches_and_all_have_the_same_result(vocabulary, num_ranks):
    slots = [None] * num_ranks
    barrier = threading.Barrier(num_ranks, timeout=60)
    results = [None] * num_ranks
    models = [UpperCase(vocabulary, batch_size=2, length=40) for _ in range(num_ranks)]

    def run(rank):
        def gather(own):
            slots[rank] = own
            barrier.wait()
            return list(slots)

        results[rank] = translate(
            SENTENCES,
            vocabulary,
            models[rank],
            batch_size=2,
            max_length=40,
            rank=rank,
            num_ranks=num_ranks,
            gather=gather,
        )

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(num_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [[sentence.upper() for sentence in SENTENCES]] * num_ranks
    assert sum(model.num_batches for model in models) == 3
    assert max(model.num_batches for model in models) == -(-3 // num_ranks)


def test_several_ranks_without_an_exchange_are_refused(vocabulary):
    model = UpperCase(vocabulary, batch_size=32, length=97)
    with pytest.raises(ValueError, match="need `gather`"):
        translate(SENTENCES, vocabulary, model, num_ranks=2)


def test_a_translation_is_one_line(vocabulary):
    ids = vocabulary.encode("so\r\nhot")
    translations = translate(["sun"], vocabulary, lambda inputs: np.array([ids] * len(inputs)))
    assert translations == ["so  hot"]


def test_subwords_that_the_vocabulary_lacks_are_left_out(vocabulary):
    def copy_and_add(inputs):
        more = np.full((len(inputs), 1), vocabulary.size + 3)
        return np.concatenate([more, inputs], axis=1)

    assert translate(["ab"], vocabulary, copy_and_add) == translate(
        ["ab"], vocabulary, lambda inputs: inputs
    )


def test_a_text_without_a_sentence_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="no sentence to translate"):
        require_as_many_lines(tmp_path / "empty", tmp_path / "empty")


def test_no_sentences_have_no_translations(vocabulary):
    assert translate([], vocabulary, UpperCase(vocabulary, 32, 97)) == []
