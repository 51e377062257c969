"""Vocabularies of both formats give every text back, and files are told apart."""

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.transformer.sentencepiece_vocabulary import train_sentencepiece
from models.transformer.special_tokens import EOS, PAD
from models.transformer.subtoken_training import train_subtokens
from models.transformer.subtoken_vocabulary import (
    ESCAPES,
    SubtokenVocabulary,
    escape_token,
    format_subtoken_file,
    join_tokens,
    parse_subtoken_file,
    split_text,
    unescape_token,
)
from models.transformer.vocabulary import load_vocabulary

SUBTOKENS = [
    "the_",
    "a_",
    "th",
    "e_",
    "Hau",
    "s_",
    ", _",
    "._",
    "äu",
    *sorted(ESCAPES | set("aehst H.")),
]
SENTENCES = [
    "The house is on the hill.",
    "Das Haus steht auf dem Hügel.",
    "A small house is better than none.",
    "Ein kleines Haus ist besser als keines.",
] * 5
texts = st.text() | st.text("ab _\\u;01.ä\n\t'")


@pytest.fixture(scope="module")
def subtokens():
    return SubtokenVocabulary(SUBTOKENS)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "model").write_bytes(train_sentencepiece(SENTENCES, 320))
    return load_vocabulary(folder / "model")


@given(texts)
@example(" a  b ")
@example("a\\u_ \\65;")
@example("\u2028\r\n")
def test_subtokens_give_every_text_back(subtokens, text):
    ids = subtokens.encode(text)
    assert subtokens.decode(ids) == text
    assert all(1 < number < subtokens.size for number in ids)


@given(texts.filter(lambda text: "\u2581" not in text))
@example(" a  b ")
@example("\u2028\r\n\t")
@settings(deadline=None)
def test_pieces_give_every_text_back(pieces, text):
    text = text.encode("utf-8", "ignore").decode()  # sentencepiece knows no lone surrogates
    ids = pieces.encode(text)
    assert pieces.decode(ids) == text
    assert all(1 < number < pieces.size for number in ids)


@given(st.text("ab _"))
def test_texts_are_cut_where_letters_meet_other_characters(text):
    tokens = split_text(text)
    assert join_tokens(tokens) == text
    assert " " not in tokens[1:-1]


@given(st.text(min_size=1), st.frozensets(st.characters()))
def test_escaped_tokens_have_characters_of_the_alphabet_only(token, alphabet):
    escaped = escape_token(token, alphabet | ESCAPES)
    assert set(escaped) <= alphabet | ESCAPES
    assert escaped.index("_") == len(escaped) - 1
    assert unescape_token(escaped[:-1]) == token


def test_the_longest_subtoken_is_taken_and_an_underscore_ends_each_token(subtokens):
    assert split_text("the Haus, the") == ["the", "Haus", ", ", "the"]
    named = [SUBTOKENS[number - 2] for number in subtokens.encode("the Haus, the")]
    assert named == ["the_", "Hau", "s_", ", _", "the_"]


def test_a_character_that_only_longer_subtokens_have_is_escaped(subtokens):
    named = [SUBTOKENS[number - 2] for number in subtokens.encode("ä äu")]
    assert named == [*"\\228;_", "äu", "_"]
    assert subtokens.decode(subtokens.encode("uä")) == "uä"


def test_ids_of_padding_and_end_have_no_text(subtokens, pieces):
    for vocabulary in (subtokens, pieces):
        ids = [PAD, *vocabulary.encode("the house"), EOS, PAD]
        assert vocabulary.decode(ids) == "the house"
        assert vocabulary.decode(np.array(ids)) == "the house"
        assert vocabulary.decode([]) == ""


def test_a_number_that_is_no_character_becomes_a_sign(subtokens):
    ids = [SUBTOKENS.index(character) + 2 for character in "\\99999999999;_"]
    assert subtokens.decode(ids) == "\u3013"


def test_many_texts_are_encoded_like_each_of_them(subtokens, pieces):
    for vocabulary in (subtokens, pieces):
        ids = vocabulary.encode_all(SENTENCES)
        assert ids == [vocabulary.encode(sentence) for sentence in SENTENCES]


def test_a_file_of_quoted_subtokens_is_read(tmp_path):
    path = tmp_path / "vocab.ende.32768"
    path.write_bytes(format_subtoken_file([*SUBTOKENS, "'", "\x0b", "''_"]))
    vocabulary = load_vocabulary(path)
    assert vocabulary.size == len(SUBTOKENS) + 5
    for text in ("'", "''", "\x0b'"):
        assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.encode("''") == [vocabulary.size - 1]


def test_reserved_subtokens_come_first_wherever_the_file_has_them(tmp_path):
    expected = SubtokenVocabulary(SUBTOKENS).encode("the Haus")
    for name, order in {"without": [], "last": ["<EOS>", "<pad>"]}.items():
        (tmp_path / name).write_text(
            "".join(f'"{subtoken}"\n' for subtoken in [*SUBTOKENS, *order]), encoding="utf-8"
        )
        vocabulary = load_vocabulary(tmp_path / name)
        assert vocabulary.size == len(SUBTOKENS) + 2
        assert vocabulary.encode("the Haus") == expected


def test_special_ids_of_pieces_are_those_of_the_trainer(pieces):
    assert pieces.size == 320
    assert pieces.encode("") == []


def test_training_twice_gives_the_same_vocabulary():
    assert train_sentencepiece(SENTENCES, 300) == train_sentencepiece(SENTENCES, 300)
    assert train_subtokens(SENTENCES, 60) == train_subtokens(SENTENCES, 60)


def test_more_pieces_than_a_text_has_are_refused():
    with pytest.raises(ValueError, match="vocabulary of 4000 pieces can be made of 1 lines"):
        train_sentencepiece(["a b"], 4000)


def test_frequent_words_become_subtokens_and_all_characters_do():
    subtokens = train_subtokens(SENTENCES, 90)  # there are no more than these
    assert {"Haus_", "is_", "better_"} <= set(subtokens)
    assert set("".join(SENTENCES)) - {" "} <= set(subtokens)
    vocabulary = SubtokenVocabulary(subtokens)
    assert len(vocabulary.encode("Das Haus")) == 2
    assert vocabulary.decode(vocabulary.encode("Häuser\n")) == "Häuser\n"


@given(st.lists(st.text("ab <>pd\\_1"), max_size=5), st.integers(1, 60))
def test_any_text_makes_a_vocabulary_that_gives_it_back(lines, size):
    vocabulary = SubtokenVocabulary(train_subtokens(lines, size))
    for line in lines:
        assert vocabulary.decode(vocabulary.encode(line)) == line


def test_a_foreign_model_of_sentencepiece_is_refused_with_the_remedy(tmp_path):
    with (tmp_path / "model").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES), model_writer=file, vocab_size=40, minloglevel=2
        )
    with pytest.raises(ValueError, match="--pad_id=0 --eos_id=1"):
        load_vocabulary(tmp_path / "model")


@pytest.mark.parametrize("content", [b"", b"\n", b"\nab", b"plain words\n", b"'\n"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="is no vocabulary"):
        load_vocabulary(tmp_path / "file")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no vocabulary file"):
        load_vocabulary(tmp_path / "nowhere")


def test_vocabularies_that_cannot_write_every_text_are_refused():
    with pytest.raises(ValueError, match="not every text has ids"):
        SubtokenVocabulary(["a", "b_"])
    with pytest.raises(ValueError, match="twice"):
        SubtokenVocabulary([*SUBTOKENS, "the_"])
    with pytest.raises(ValueError, match="not a subtoken in quotes: 'the_'"):
        parse_subtoken_file(b"'a'\nthe_\n")
