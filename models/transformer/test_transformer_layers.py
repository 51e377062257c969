"""Sizes are the published ones, padding changes nothing, and no position sees later ones."""

import math

import keras
import numpy as np
import pytest
from cases import cases

from models.transformer.layers.embedding import SharedEmbedding, sinusoidal_vectors
from models.transformer.layers.masks import not_later, not_padding
from models.transformer.network import Transformer
from models.transformer.params import PARAM_SETS, TransformerParams

SMALL = PARAM_SETS["tiny"].replace(vocab_size=20, num_hidden_layers=2, filter_size=48)
PUBLISHED_VOCAB_SIZE = 37_000
PUBLISHED_MILLIONS = {"base": 65, "big": 213}  # https://arxiv.org/abs/1706.03762, table 3


@pytest.fixture(scope="module")
def network():
    keras.utils.set_random_seed(3)
    transformer = Transformer(SMALL)
    transformer.build(None)
    return transformer


@pytest.fixture(scope="module")
def sentences():
    random = np.random.default_rng(0)
    sources, targets = random.integers(2, 20, (3, 6)), random.integers(2, 20, (3, 5))
    sources[1, 4:] = 0
    targets[2, 3:] = 0
    return sources, targets


def number_of_parameters(params: TransformerParams) -> int:
    d, f = params.hidden_size, params.filter_size
    attention, norm, feed_forward = 4 * d * d, 2 * d, 2 * d * f + f + d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    layers = params.num_hidden_layers * (encoder_layer + decoder_layer)
    return params.vocab_size * d + layers + 2 * norm


@cases("name", ["tiny", "base"], thorough=["big"])
def test_each_matrix_of_the_paper_is_there_once(name):
    params = PARAM_SETS[name].replace(vocab_size=PUBLISHED_VOCAB_SIZE)
    assert count_parameters(params) == number_of_parameters(params)


@pytest.mark.parametrize("name", ["base", "big"])
def test_sizes_are_those_that_were_published(name):
    params = PARAM_SETS[name].replace(vocab_size=PUBLISHED_VOCAB_SIZE)
    assert number_of_parameters(params) == pytest.approx(1e6 * PUBLISHED_MILLIONS[name], rel=0.04)


def test_the_big_model_has_more_than_200_million_parameters():
    assert number_of_parameters(PARAM_SETS["big"]) == 210_884_608


def count_parameters(params):
    """Count without making them: `big` would take 0.8 GB."""
    with keras.StatelessScope():  # variables are not initialised within
        transformer = Transformer(params)
        transformer.build(None)
        return sum(math.prod(variable.shape) for variable in transformer.trainable_variables)


def test_the_sets_are_those_of_the_model_garden():
    for params in PARAM_SETS.values():
        assert params.num_hidden_layers == 6
        assert params.attention_dropout == params.relu_dropout == params.label_smoothing == 0.1
        assert (params.adam_beta_1, params.adam_beta_2, params.adam_epsilon) == (0.9, 0.997, 1e-9)
        assert (params.learning_rate, params.beam_size, params.alpha) == (2.0, 4, 0.6)
        assert params.extra_decode_length == 50
    assert {
        name: (
            params.batch_size,
            params.hidden_size,
            params.num_heads,
            params.filter_size,
            params.learning_rate_warmup_steps,
            params.layer_postprocess_dropout,
        )
        for name, params in PARAM_SETS.items()
    } == {
        "tiny": (1024, 32, 4, 256, 16000, 0.1),
        "base": (2048, 512, 8, 2048, 8000, 0.1),
        "big": (4096, 1024, 16, 4096, 8000, 0.3),
    }


def test_heads_of_unequal_width_are_refused():
    with pytest.raises(ValueError, match="3 heads cannot share 32 entries"):
        PARAM_SETS["tiny"].replace(num_heads=3)


def test_embeddings_are_scaled_and_those_of_padding_are_zero():
    embedding = SharedEmbedding(20, 16)
    vectors = embedding(np.array([[5, 0]]))
    np.testing.assert_allclose(vectors[0, 0], 4.0 * embedding.table[5], rtol=1e-6)
    np.testing.assert_array_equal(vectors[0, 1], np.zeros(16))


def test_source_and_target_and_the_last_layer_share_one_table(network, sentences):
    tables = [each for each in network.weights if each.shape == (SMALL.vocab_size, 32)]
    assert len(tables) == 1
    vectors = np.ones((1, 2, 32), np.float32)
    expected = vectors @ np.transpose(tables[0])
    np.testing.assert_allclose(network.embedding.logits(vectors), expected, rtol=1e-5)


def test_positions_are_waves_of_growing_length():
    vectors = np.array(sinusoidal_vectors(np.arange(50), 8))
    for wave in range(4):
        frequency = 10_000 ** (-wave / 3)
        np.testing.assert_allclose(vectors[:, wave], np.sin(frequency * np.arange(50)), atol=1e-5)
        np.testing.assert_allclose(
            vectors[:, 4 + wave], np.cos(frequency * np.arange(50)), atol=1e-5
        )


def test_masks_hide_padding_and_what_comes_later():
    np.testing.assert_array_equal(not_padding(np.array([[3, 1, 0]])), [[[[True, True, False]]]])
    np.testing.assert_array_equal(
        not_later(3)[0, 0], [[True, False, False], [True, True, False], [True, True, True]]
    )


def test_a_prediction_sees_the_subwords_before_it_and_no_others(network, sentences):
    sources, targets = sentences
    changed = targets.copy()
    changed[:, 2] = 7
    before, after = (np.array(network(sources, each)) for each in (targets, changed))
    np.testing.assert_allclose(after[:, :3], before[:, :3], atol=1e-6)
    assert np.abs(after[:, 3:] - before[:, 3:]).max(axis=(1, 2)).min() > 1e-3


def test_longer_padding_changes_no_prediction(network, sentences):
    sources, targets = sentences
    logits = network(sources, targets)
    longer = network(np.pad(sources, [(0, 0), (0, 3)]), np.pad(targets, [(0, 0), (0, 2)]))
    np.testing.assert_allclose(longer[:, :5], logits, atol=1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_a_row_of_padding_alone_gives_numbers(policy):
    transformer = Transformer(SMALL, dtype=policy)
    assert np.isfinite(transformer(np.zeros((1, 3), int), np.zeros((1, 2), int))).all()


def test_dropout_works_in_training_alone(network, sentences):
    quiet, again = (np.array(network(*sentences)) for _ in range(2))
    np.testing.assert_array_equal(quiet, again)
    assert np.abs(np.array(network(*sentences, training=True)) - quiet).max() > 0.01


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_layers_compute_in_half_precision_and_logits_do_not(policy, sentences):
    transformer = Transformer(SMALL, dtype=policy)
    logits = transformer(*sentences)
    assert transformer.encode(sentences[0])[0].dtype == policy.removeprefix("mixed_")
    assert logits.dtype == "float32"
    assert {weight.dtype for weight in transformer.weights} == {"float32"}
    assert np.isfinite(logits).all()
