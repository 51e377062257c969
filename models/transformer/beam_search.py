"""Beam search: the most probable target, found among the best few beginnings.

In each step the `beam_size` best unfinished beginnings (*alive* hypotheses) of a sentence grow by
one subword. Those that end are *finished*; of these the best one is kept. With the length penalty
of GNMT (https://arxiv.org/abs/1609.08144, section 7)

    score(Y) = log p(Y) / ((5 + |Y|) / 6)^alpha,      |Y| = subwords with the end of sentence,

a sentence is *done* when no alive hypothesis can exceed the best finished one any more, since log p
only falls, or when its own limit of subwords is reached. From then on nothing of it changes,
whatever the other sentences of the batch still do: results depend neither on these nor on padding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from models.transformer.special_tokens import EOS, PAD

IMPOSSIBLE = -1e9
"""Log probability of what must not be."""


class State(NamedTuple):
    """After some steps; `batch` sentences, `beam` hypotheses of each, `length` steps.

    Attributes:
        length: Steps so far, a scalar.
        alive: Subwords of alive hypotheses, (batch, beam, length), best first.
        alive_log_probs: Their log probabilities, (batch, beam).
        finished: Subwords of the best finished hypothesis, (batch, length).
        finished_scores: Its score, (batch,).
        is_done: Whether the sentence is done, (batch,).
        cache: Of the network, for (batch * beam) hypotheses.
    """

    length: tf.Tensor
    alive: tf.Tensor
    alive_log_probs: tf.Tensor
    finished: tf.Tensor
    finished_scores: tf.Tensor
    is_done: tf.Tensor
    cache: Any


Step = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(last subwords (batch * beam,), position, cache) -> (logits (batch * beam, vocabulary), cache)"""


def beam_search(
    step: Step, cache: Any, limits: Any, *, beam_size: int, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best target of each sentence, and its score.

    Where no hypothesis has ended within the limit, the best unfinished one is returned.

    Args:
        step: Predicts the next subword of all hypotheses.
        cache: What `step` gets first: tensors whose first dimension is (batch * beam) in any
            structure; their second one may grow.
        limits: Subwords that a target may have, end of sentence included, (batch,), at least 1.
        beam_size: Number of alive hypotheses of a sentence.
        alpha: Exponent of the length penalty, at least 0.

    Returns:
        Subwords (batch, steps), int32, padded behind the end of sentence; and scores (batch,),
        float32.
    """
    limits = tf.cast(limits, tf.int32)

    def goes_on(*parts: Any) -> tf.Tensor:
        return tf.logical_not(tf.reduce_all(State(*parts).is_done))

    def grow(*parts: Any) -> State:
        return _grow(State(*parts), step, limits, beam_size, alpha)

    start = _start(cache, tf.shape(limits)[0], beam_size)
    state = State(*tf.while_loop(goes_on, grow, start, shape_invariants=_shapes(start)))
    return _best(state, limits, alpha)


def length_penalty(length: Any, alpha: float) -> tf.Tensor:
    """Return ((5 + length) / 6)^alpha, float32."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def _start(cache: Any, batch_size: tf.Tensor, beam_size: int) -> State:
    """One empty hypothesis for each sentence; the others of the beam are impossible."""
    others = tf.fill([batch_size, beam_size - 1], IMPOSSIBLE)
    return State(
        length=tf.constant(0),
        alive=tf.zeros([batch_size, beam_size, 0], tf.int32),
        alive_log_probs=tf.concat([tf.zeros([batch_size, 1]), others], axis=1),
        finished=tf.zeros([batch_size, 0], tf.int32),
        finished_scores=tf.fill([batch_size], IMPOSSIBLE),
        is_done=tf.zeros([batch_size], tf.bool),
        cache=cache,
    )


def _shapes(start: State) -> State:
    """Return what may vary in a loop: all lengths."""

    def of_cache(tensor: tf.Tensor) -> tf.TensorShape:
        return tf.TensorShape([None, None, *tensor.shape[2:]])

    beam_size = start.alive.shape[1]
    return State(
        length=tf.TensorShape([]),
        alive=tf.TensorShape([None, beam_size, None]),
        alive_log_probs=tf.TensorShape([None, beam_size]),
        finished=tf.TensorShape([None, None]),
        finished_scores=tf.TensorShape([None]),
        is_done=tf.TensorShape([None]),
        cache=tf.nest.map_structure(of_cache, start.cache),
    )


def _grow(state: State, step: Step, limits: tf.Tensor, beam_size: int, alpha: float) -> State:
    """Let all hypotheses grow by one subword; those of sentences that are done stay as they are."""
    log_probs, cache = _predict(state, step, beam_size)
    parents, tokens, log_probs = _best_candidates(state.alive_log_probs, log_probs, 2 * beam_size)
    length = state.length + 1
    grown = tf.concat(
        [tf.gather(state.alive, parents, batch_dims=1), tokens[..., tf.newaxis]], axis=-1
    )
    ends = tf.equal(tokens, EOS)
    finished, finished_scores = _finish(state, grown, tf.where(ends, log_probs, IMPOSSIBLE), alpha)

    alive_log_probs, kept = tf.math.top_k(tf.where(ends, IMPOSSIBLE, log_probs), beam_size)
    alive = tf.gather(grown, kept, batch_dims=1)
    parents = tf.gather(parents, kept, batch_dims=1)
    best_possible = alive_log_probs[:, 0] / length_penalty(limits, alpha)
    is_done = state.is_done | (finished_scores >= best_possible) | (length >= limits)

    was_done = state.is_done[:, tf.newaxis]
    return State(
        length=length,
        alive=tf.where(was_done[..., tf.newaxis], _padded(state.alive), alive),
        alive_log_probs=tf.where(was_done, state.alive_log_probs, alive_log_probs),
        finished=tf.where(was_done, _padded(state.finished), finished),
        finished_scores=tf.where(state.is_done, state.finished_scores, finished_scores),
        is_done=is_done,
        cache=_caches_of(parents, cache),
    )


def _predict(state: State, step: Step, beam_size: int) -> tuple[tf.Tensor, Any]:
    """Return log probabilities (batch, beam, vocabulary) of the next subword, and the cache."""
    last = tf.pad(state.alive, [[0, 0], [0, 0], [1, 0]], constant_values=PAD)[..., -1]
    logits, cache = step(tf.reshape(last, [-1]), state.length, state.cache)
    vocab_size = logits.shape[-1]
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    log_probs = tf.where(tf.range(vocab_size) == PAD, IMPOSSIBLE, log_probs)
    return tf.reshape(log_probs, [-1, beam_size, vocab_size]), cache


def _best_candidates(
    alive_log_probs: tf.Tensor, log_probs: tf.Tensor, number: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the best pairs of an alive hypothesis and a subword, best first.

    Among 2 * beam of them at least half do not end, since each hypothesis has one end of sentence.

    Returns:
        Index of the hypothesis, subword, log probability: all (batch, number).
    """
    beam_size, vocab_size = log_probs.shape[1:]
    of_pairs = tf.maximum(alive_log_probs[..., tf.newaxis] + log_probs, IMPOSSIBLE)
    number = min(number, beam_size * vocab_size)
    best, pairs = tf.math.top_k(tf.reshape(of_pairs, [-1, beam_size * vocab_size]), number)
    return pairs // vocab_size, pairs % vocab_size, best


def _finish(
    state: State, grown: tf.Tensor, ended_log_probs: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best finished hypothesis of each sentence and its score, new ones included."""
    best = tf.argmax(ended_log_probs, axis=1)
    log_prob = tf.gather(ended_log_probs, best, batch_dims=1)
    score = tf.where(
        log_prob > IMPOSSIBLE, log_prob / length_penalty(state.length + 1, alpha), IMPOSSIBLE
    )
    is_better = score > state.finished_scores
    sequence = tf.gather(grown, best, batch_dims=1)
    finished = tf.where(is_better[:, tf.newaxis], sequence, _padded(state.finished))
    return finished, tf.where(is_better, score, state.finished_scores)


def _padded(sequences: tf.Tensor) -> tf.Tensor:
    """Return sequences (..., length) with one more subword of padding."""
    return tf.concat([sequences, tf.fill([*tf.unstack(tf.shape(sequences)[:-1]), 1], PAD)], axis=-1)


def _caches_of(parents: tf.Tensor, cache: Any) -> Any:
    """Return the caches of the hypotheses from which the alive ones have grown.

    Args:
        parents: Their places in the beam, (batch, beam).
        cache: Tensors of (batch * beam) hypotheses.
    """
    batch_size, beam_size = tf.shape(parents)[0], parents.shape[1]
    rows = tf.reshape(parents + tf.range(batch_size)[:, tf.newaxis] * beam_size, [-1])
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), cache)


def _best(state: State, limits: tf.Tensor, alpha: float) -> tuple[tf.Tensor, tf.Tensor]:
    has_finished = state.finished_scores > IMPOSSIBLE
    unfinished_scores = state.alive_log_probs[:, 0] / length_penalty(limits, alpha)
    sequences = tf.where(has_finished[:, tf.newaxis], state.finished, state.alive[:, 0])
    return sequences, tf.where(has_finished, state.finished_scores, unfinished_scores)
