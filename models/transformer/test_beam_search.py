"""Beam search finds the best target, and neither its cache nor the rest of a batch changes it."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import cases

from models.transformer.beam_search import beam_search
from models.transformer.network import Transformer
from models.transformer.params import PARAM_SETS
from models.transformer.special_tokens import EOS, PAD
from models.transformer.task import BeamSearch, create_model

PARAMS = PARAM_SETS["tiny"].replace(
    vocab_size=7, num_hidden_layers=2, filter_size=48, extra_decode_length=3
)
SOURCES = np.array([[3, 4, 5, 1, 0, 0], [2, 1, 0, 0, 0, 0], [6, 6, 2, 5, 3, 1], [4, 2, 1, 0, 0, 0]])


@pytest.fixture(scope="module")
def network():
    """Weights so large that predictions are decided, and differ from sentence to sentence."""
    keras.utils.set_random_seed(5)
    transformer = Transformer(PARAMS)
    transformer.build(None)
    transformer.set_weights([2.0 * weight for weight in transformer.get_weights()])
    return transformer


@pytest.fixture(scope="module")
def translation(network):
    return create_model(network, PARAMS, is_train=False)


def log_probabilities(network, source, targets):
    """Log p of each target, computed at once and without a cache; PAD cannot be predicted.

    Args:
        source: Subwords (length,).
        targets: As many rows as hypotheses, of equal length.
    """
    sources = np.repeat(source[np.newaxis], len(targets), axis=0)
    log_p = tf.nn.log_softmax(network(sources, targets)).numpy()
    return np.take_along_axis(log_p, targets[..., np.newaxis], axis=-1)[..., 0].sum(axis=1)


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def search_by_hand(network, source, beam_size, alpha, limit):
    """The same search, one hypothesis after the other, all of each computed anew in every step."""
    alive, finished = [((), 0.0)], []
    for length in range(1, limit + 1):
        grown = [
            (*sequence, subword) for sequence, _ in alive for subword in range(1, PARAMS.vocab_size)
        ]
        scores = log_probabilities(network, source, np.array(grown))
        best = sorted(zip(scores, grown, strict=True), reverse=True)[: 2 * beam_size]
        finished += [(s / penalty(length, alpha), t) for s, t in best if t[-1] == EOS]
        alive = [(t, s) for s, t in best if t[-1] != EOS][:beam_size]
    if finished:
        return max(finished)
    sequence, log_p = alive[0]
    return log_p / penalty(limit, alpha), sequence


def without_padding(output):
    return tuple(int(subword) for subword in output if subword != PAD)


def translate(network, sources, **changes):
    params = PARAMS.replace(**changes)
    decoder = Transformer(params)
    decoder.build(None)
    decoder.set_weights(network.get_weights())
    results = BeamSearch(decoder)(sources)
    return [without_padding(each) for each in results["outputs"].numpy()], results["scores"].numpy()


@cases(("beam_size", "alpha"), [(4, 0.6)], thorough=((1, 0.6), (3, 0.0), (2, 2.0)))
def test_decoding_with_a_cache_is_the_search_without_one(network, beam_size, alpha):
    targets, scores = translate(network, SOURCES, beam_size=beam_size, alpha=alpha)
    for source, target, score in zip(SOURCES, targets, scores, strict=True):
        limit = np.count_nonzero(source) + PARAMS.extra_decode_length
        expected_score, expected = search_by_hand(network, source, beam_size, alpha, limit)
        assert target == expected
        np.testing.assert_allclose(score, expected_score, rtol=1e-4)


def test_a_wide_beam_finds_the_best_of_all_targets(network):
    source, limit, alpha = SOURCES[1], 4, 0.6
    best = (-np.inf, ())
    for length in range(1, limit + 1):
        words = itertools.product(range(2, PARAMS.vocab_size), repeat=length - 1)
        targets = np.array([[*each, EOS] for each in words])
        scores = log_probabilities(network, source, targets) / penalty(length, alpha)
        best = max(best, (scores.max(), tuple(targets[scores.argmax()].tolist())))
    targets, scores = translate(
        network, source[np.newaxis], beam_size=150, extra_decode_length=limit - 2
    )
    assert targets[0] == best[1]
    np.testing.assert_allclose(scores[0], best[0], rtol=1e-4)


def test_other_sentences_and_padding_change_nothing(translation):
    together = translation.predict_on_batch(SOURCES)
    for number, source in enumerate(SOURCES):
        for width in (np.count_nonzero(source), 9):
            alone = np.zeros((1, width), np.int64)
            alone[0, : np.count_nonzero(source)] = source[source != PAD]
            result = translation.predict_on_batch(alone)
            assert without_padding(result["outputs"][0]) == without_padding(
                together["outputs"][number]
            )
            np.testing.assert_allclose(result["scores"], together["scores"][number], rtol=1e-5)


def test_every_sentence_has_its_own_limit(translation):
    outputs = translation.predict_on_batch(SOURCES)["outputs"]
    assert outputs.shape == (4, SOURCES.shape[1] + PARAMS.extra_decode_length)
    for source, output in zip(SOURCES, outputs, strict=True):
        subwords = without_padding(output)
        assert 1 <= len(subwords) <= np.count_nonzero(source) + PARAMS.extra_decode_length
        assert EOS not in subwords[:-1]
        assert not output[len(subwords) :].any()


def constant_steps(log_probs):
    """A network that always predicts the same, and counts its steps in its cache."""

    def step(tokens, position, cache):
        return tf.repeat([log_probs], tf.shape(tokens)[0], axis=0), cache + 1.0

    return step


def test_a_target_that_never_ends_is_the_best_beginning():
    logits = np.array([0.0, -1e9, 1.0, 2.0], np.float32)
    outputs, scores = beam_search(
        constant_steps(logits), tf.zeros([4, 1]), [3, 1], beam_size=2, alpha=0.0
    )
    np.testing.assert_array_equal(outputs, [[3, 3, 3], [3, 0, 0]])
    best = 2.0 - np.log(np.exp(logits).sum())
    np.testing.assert_allclose(scores, [3 * best, best], rtol=1e-4)


def test_the_search_ends_as_soon_as_nothing_better_can_come():
    logits = np.array([-50.0, 9.0, 0.0, 0.0], np.float32)
    outputs, _ = beam_search(
        constant_steps(logits), tf.zeros([2, 1]), [1000], beam_size=2, alpha=0.6
    )
    np.testing.assert_array_equal(outputs, [[EOS]])
