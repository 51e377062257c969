"""One step for all lengths: what depends on a size that is not known is computed when it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from step_cases import in_groups, loss_of
from step_replicas import StepInReplicas, assert_replicas, exchanged, gathered

LENGTHS = (4, 1, 5, 12, 13, 6, 7)
of_all_replicas = cases("rows_and_replicas", [(5, 3)], thorough=[(7, 2)], ids=str)


def rows(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *sizes]).normal(size=sizes).astype("float32")


def assert_for_all_lengths(
    function: Callable[..., Any],
    rows_and_replicas: tuple[int, int] = (5, 3),
    width: int = 3,
    with_example: bool = True,
) -> StepInReplicas:
    """Build a step once, and compare it for several lengths."""
    num_rows, replicas = rows_and_replicas
    weights = tf.Variable(rows(width, width))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = tf.nest.map_structure(tf.convert_to_tensor, function(weights, x))
            loss = loss_of(values)
        gradients = tape.gradient(loss, [weights, x], unconnected_gradients="zero")
        weights.assign_sub(0.02 * gradients[0])
        return values, loss, gradients

    batches = [[rows(num_rows, t, width)] for t in LENGTHS]
    traced = assert_replicas(
        step,
        *batches,
        replicas=[replicas],
        unknown={0: [1]},
        with_example=with_example,
        variables=[weights],
    )
    assert len(traced.built) == 1
    return traced


def length_of(x: tf.Tensor) -> Any:
    return tf.shape(x)[1]


NUMBERS_OF_LENGTHS: dict[str, Callable[..., Any]] = {
    "minimum": lambda w, x: tf.reduce_sum(x @ w) * tf.cast(tf.minimum(length_of(x), 10), "float32"),
    "slice": lambda w, x: tf.reduce_mean((x @ w)[:, :10]),
    "slice that counts from the end": lambda w, x: (x @ w)[:, -6:] * 2.0,
    "comparison": lambda w, x: tf.cast(length_of(x) > 5, "float32") * x @ w,
    "branch": lambda w, x: tf.cond(length_of(x) > 5, lambda: x @ w * 2.0, lambda: tf.sin(x @ w)),
    "remainders": lambda w, x: x @ w * tf.cast(length_of(x) % 4 + length_of(x) % 2, "float32"),
    "quotient": lambda w, x: x @ w + tf.cast(length_of(x) // 5, "float32"),
    "padded to even": lambda w, x: tf.pad(x @ w, [[0, 0], [0, length_of(x) % 2], [0, 0]]),
    "padded to at least eight": lambda w, x: tf.pad(
        x @ w, [[0, 0], [0, tf.maximum(length_of(x), 8) - length_of(x)], [0, 0]]
    ),
    "one hot": lambda w, x: tf.one_hot(tf.minimum(length_of(x) - 1, 3), 5) * (x @ w)[:, 0, :1],
    "choice": lambda w, x: tf.where(length_of(x) == 5, tf.reduce_sum(x @ w), tf.reduce_mean(x)),
    "switch": lambda w, x: tf.switch_case(
        length_of(x) % 3, [lambda: x @ w, lambda: x + 0.0, lambda: -x]
    ),
    "squares": lambda w, x: x @ w / tf.cast(length_of(x) * length_of(x), "float32"),
    "size and rank": lambda w, x: (
        x @ w,
        tf.size(x),
        tf.shape(x),
        tf.rank(x),
        tf.size(x) // 3,
        tf.shape(x)[::-1],
    ),
    "positions": lambda w, x: x @ w + tf.cast(tf.range(length_of(x)), "float32")[:, None],
    "positions of rows": lambda w, x: x @ w + tf.cast(tf.range(tf.size(x) // 3) % 7, "float32")[0],
    "difference from rows": lambda w, x: x @ w * tf.cast(tf.shape(x)[0] - length_of(x), "float32"),
}


@of_all_replicas
@in_groups("function", NUMBERS_OF_LENGTHS)
def test_a_number_that_depends_on_a_length_is_none_of_the_first_batch(
    function: Any, rows_and_replicas: tuple[int, int]
) -> None:
    assert_for_all_lengths(function, rows_and_replicas)


SHAPES_OF_LENGTHS: dict[str, Callable[..., Any]] = {
    "time merged into rows": lambda w, x: tf.reshape(
        tf.tanh(tf.reshape(x, [-1, 3]) @ w), tf.shape(x)
    ),
    "time first": lambda w, x: tf.transpose(x @ w, [1, 0, 2]),
    "time first and merged": lambda w, x: tf.reshape(tf.transpose(x @ w, [1, 0, 2]), [-1, 3]),
    "all flat": lambda w, x: tf.reshape(x @ w, [-1]),
    "rows flat": lambda w, x: tf.reshape(x @ w, [tf.shape(x)[0], -1]),
    "scores": lambda w, x: tf.matmul(tf.nn.softmax(tf.matmul(x @ w, x, transpose_b=True)), x),
    "causal scores": lambda w, x: tf.where(
        tf.linalg.band_part(tf.ones([length_of(x), length_of(x)], "bool"), -1, 0),
        tf.matmul(x @ w, x, transpose_b=True),
        0.0,
    ),
    "totals over time": lambda w, x: (
        tf.reduce_sum(x @ w, 1),
        tf.reduce_mean(x @ w, [0, 1]),
        tf.reduce_max(x @ w, 1),
    ),
    "centred": lambda w, x: x @ w - tf.reduce_mean(x @ w, [0, 1], keepdims=True),
    "softmax over time": lambda w, x: tf.nn.softmax(x @ w, 1),
    "reversed": lambda w, x: (tf.reverse(x @ w, [1]), (x @ w)[:, ::-1], (x @ w)[:, ::2]),
    "first and last": lambda w, x: ((x @ w)[:, 0], (x @ w)[:, -1], (x @ w)[:, :1]),
    "shifted": lambda w, x: tf.concat([tf.zeros_like(x[:, :1]), (x @ w)[:, :-1]], 1),
    "views": lambda w, x: (lambda y: (y, tf.split(y, 2)[1] * tf.split(y, 2)[0]))(
        tf.concat([x @ w, 2.0 * x @ w], 0)
    ),
    "joined in time": lambda w, x: tf.concat([x @ w, x, x], 1),
    "tiled in time": lambda w, x: tf.tile(x @ w, [1, 3, 1]),
    "repeated in time": lambda w, x: tf.repeat(x @ w, 2, axis=1),
    "broadcast": lambda w, x: tf.broadcast_to((x @ w)[:, :1], tf.shape(x)) + tf.zeros_like(x),
    "weights for all": lambda w, x: x @ w + tf.broadcast_to(w[0], tf.shape(x)),
    "mask by lengths": lambda w, x: tf.where(
        tf.sequence_mask(tf.range(tf.shape(x)[0]) % length_of(x) + 1, length_of(x))[:, :, None],
        x @ w,
        0.0,
    ),
    "every step of time picked by a row": lambda w, x: tf.gather(
        x @ w, tf.range(tf.shape(x)[0]) % length_of(x), axis=1, batch_dims=1
    ),
    "unstacked shape": lambda w, x: (
        lambda s: tf.reshape(tf.reshape(x @ w, [s[0], s[1] * s[2]]), s)
    )(tf.unstack(tf.shape(x))),
    "pairs of rows": lambda w, x: tf.einsum("ntd,mtd->nmt", x @ w, x),
    "pairs in time": lambda w, x: (x @ w)[:, :, None] - x[:, None],
    "convolved": lambda w, x: tf.nn.conv1d(x, w[None], 1, "SAME"),
    "draws": lambda w, x: x @ w * tf.random.stateless_normal(tf.shape(x), [1, 2]),
    "dropout": lambda w, x: tf.nn.experimental.stateless_dropout(x @ w, 0.3, [1, 2]),
    "moved over time": lambda w, x: tf.roll(x @ w, 1, 1),
    "cumulated": lambda w, x: (tf.cumsum(x @ w, 1), tf.cumsum(x @ w, 0)),
    "expanded": lambda w, x: tf.squeeze(tf.expand_dims(x @ w, 1), [1])[:, None, :, None],
}


@of_all_replicas
@in_groups("function", SHAPES_OF_LENGTHS)
def test_values_with_a_length_keep_it_in_replicas(
    function: Any, rows_and_replicas: tuple[int, int]
) -> None:
    assert_for_all_lengths(function, rows_and_replicas)


def test_a_table_of_positions_as_long_as_the_batch_gathers_nothing() -> None:
    table = tf.Variable(rows(20, 3))

    def function(w: Any, x: Any) -> Any:
        t = tf.shape(x)[1]
        return (
            x @ w + table[:t],
            x + tf.slice(table, [0, 0], [t, 3]),
            x @ w + tf.gather(table, tf.range(t)),
        )

    assert gathered(assert_for_all_lengths(function)) == []


def test_numbers_for_all_places_of_a_batch_gather_nothing() -> None:
    def function(w: Any, x: Any) -> Any:
        flat = tf.reshape(x @ w, [-1, 3])
        places = tf.range(tf.shape(flat)[0])
        numbered = flat * tf.cast(places, "float32")[:, None]
        return numbered, tf.math.unsorted_segment_sum(flat, places % 3, 3)

    assert gathered(assert_for_all_lengths(function)) == []


def test_a_size_that_a_reshape_finds_is_known_if_all_others_are_those_of_the_value() -> None:
    def function(w: Any, x: Any) -> Any:
        n, t = tf.shape(x)[0], tf.shape(x)[1]
        groups = tf.reshape(x @ w, [-1, t, 2, 3])
        halves = tf.reshape(x, [n, t, -1, 2])
        return groups, halves, tf.reshape(x, [-1, 6])

    assert gathered(assert_for_all_lengths(function, width=6)) == []


def test_a_list_as_long_as_the_batch_keeps_its_length() -> None:
    def function(w: Any, x: Any) -> Any:
        states = tf.scan(
            lambda a, b: tf.tanh(a @ w + b), tf.transpose(x, [1, 0, 2]), tf.zeros_like(x[:, 0])
        )
        return tf.transpose(states, [1, 0, 2]) * x, tf.reshape(
            tf.transpose(states, [1, 0, 2]), [-1, 3]
        )

    assert gathered(assert_for_all_lengths(function)) == []


def test_attention_over_unknown_lengths_gathers_nothing() -> None:
    def heads(x: tf.Tensor) -> tf.Tensor:
        n, t = tf.shape(x)[0], tf.shape(x)[1]
        return tf.transpose(tf.reshape(x, [n, t, 2, 3]), [0, 2, 1, 3])

    def function(w: Any, x: Any) -> Any:
        n, t = tf.shape(x)[0], tf.shape(x)[1]
        q, k, v = heads(x @ w), heads(x * 0.5), heads(tf.sin(x @ w))
        score = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
        return tf.reshape(tf.transpose(tf.matmul(score, v), [0, 2, 1, 3]), [n, t, 6])

    assert gathered(assert_for_all_lengths(function, width=6)) == []


LOOPS_OVER_LENGTHS: dict[str, Callable[..., Any]] = {
    "while": lambda w, x: tf.while_loop(
        lambda i, a: i < length_of(x),
        lambda i, a: (i + 1, tf.tanh(a @ w + x[:, i])),
        [0, tf.zeros_like(x[:, 0])],
    )[1],
    "scan": lambda w, x: tf.scan(
        lambda a, b: tf.tanh(a @ w + b), tf.transpose(x, [1, 0, 2]), tf.zeros_like(x[:, 0])
    ),
    "list": lambda w, x: tf.while_loop(
        lambda i, s: i < length_of(x),
        lambda i, s: (i + 1, s.write(i, tf.sin(x[:, i] @ w))),
        [0, tf.TensorArray("float32", length_of(x))],
    )[1].stack(),
    "growing": lambda w, x: tf.while_loop(
        lambda i, a: i < 3,
        lambda i, a: (i + 1, tf.concat([a, x], 1)),
        [0, x @ w],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None, 3])],
    )[1],
    "shrinking": lambda w, x: tf.while_loop(
        lambda i, a: tf.shape(a)[1] > 1,
        lambda i, a: (i + 1, a[:, : tf.shape(a)[1] // 2] * 2.0),
        [0, x @ w],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None, 3])],
    )[1],
    "branches of other lengths": lambda w, x: tf.cond(
        tf.reduce_sum(x) > 0,
        lambda: (x @ w)[:, :1] + tf.constant([1.0, 2.0, 3.0]),
        lambda: x @ w + tf.constant([[1.0]]),
    ),
}  # fmt: skip


@of_all_replicas
@in_groups("function", LOOPS_OVER_LENGTHS)
def test_loops_run_over_the_length_of_each_batch(
    function: Any, rows_and_replicas: tuple[int, int]
) -> None:
    assert_for_all_lengths(function, rows_and_replicas)


@pytest.mark.parametrize("with_example", [False, True])
def test_two_unknown_lengths_are_not_the_same_length(with_example: bool) -> None:
    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            a, b = tf.shape(x)[1], tf.shape(y)[1]
            values = (
                tf.reduce_sum(x) * tf.cast(a - b, "float32"),
                tf.reduce_sum(y) * tf.cast(a / b, "float32"),
                tf.where(a == b, tf.reduce_mean(x), tf.reduce_sum(y)),
                tf.cond(a > b, lambda: tf.reduce_sum(x * 2.0), lambda: tf.reduce_sum(y)),
                tf.matmul(x, y, transpose_b=True),
                tf.concat([x, y], 1),
                tf.reduce_sum(x[:, :, None] * y[:, None], -1),
            )
            loss = loss_of(values)
        return values, tape.gradient(loss, [x, y])

    lengths = [(4, 4), (4, 6), (7, 1), (1, 7), (5, 5)]
    batches = [[rows(5, a, 3), rows(5, b, 3, seed=1)] for a, b in lengths]
    traced = assert_replicas(
        step, *batches, replicas=(3,), unknown={0: [1], 1: [1]}, with_example=with_example
    )
    assert len(traced.built) == 1


def test_an_unknown_length_may_be_one_where_another_is_not() -> None:
    """Then it is broadcast, and its gradient is summed."""

    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            values = x * y, x + y[:, :, :1], tf.maximum(x, y), tf.where(x > y, x, y)
            loss = loss_of(values)
        return values, tape.gradient(loss, [x, y])

    batches = [[rows(5, a, 3), rows(5, b, 3, seed=1)] for a, b in ((4, 4), (4, 1), (1, 6), (1, 1))]
    assert_replicas(step, *batches, replicas=(3,), unknown={0: [1], 1: [1]})


def test_an_unknown_length_beside_an_argument_without_rows() -> None:
    def step(x: tf.Tensor, places: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, places])
            value = tf.sin(x + places) @ tf.transpose(places)
            loss = tf.reduce_mean(value * value)
        return value, tape.gradient(loss, [x, places])

    # The length of the second is known to TensorFlow as little as that of the first.
    batches = [[rows(5, t, 3), rows(t, 3, seed=1)] for t in (4, 5, 1)]
    assert_replicas(step, *batches, rows=[True, False], unknown={0: [1], 1: [0]})


def test_places_of_unknown_depth_pick_values_with_an_unknown_number_of_axes() -> None:
    table = tf.Variable(rows(4, 3))

    def step(x: tf.Tensor, places: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            picked = tf.gather_nd(table, places)
            values = picked * x[:, :1], tf.reduce_sum(picked) * x, tf.shape(picked), tf.size(picked)
            loss = loss_of(values)
        return values, tape.gradient(loss, x)

    batches = [[rows(5, 2), np.arange(5 * n).reshape(5, n) % 3] for n in (2, 1)]
    assert_replicas(step, *batches, unknown={1: [1]}, with_example=True)


@pytest.mark.parametrize("unknown", [(1,), (2,), (1, 2)])
def test_images_of_unknown_sizes(unknown: tuple[int, ...]) -> None:
    kernel = tf.Variable(rows(3, 3, 2, 4))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "SAME")), 2, 1, "SAME")
            y -= tf.reduce_mean(y, [0, 1, 2])
            loss = tf.reduce_mean(y * y)
        gradient = tape.gradient(loss, kernel)
        kernel.assign_sub(gradient)
        return loss, y, tf.image.resize(x, [4, 5]), tf.reduce_mean(x, [1, 2])

    sizes = [
        (h if 1 in unknown else 6, w if 2 in unknown else 6) for h, w in ((6, 8), (5, 5), (9, 6))
    ]
    batches = [[rows(5, h, w, 2)] for h, w in sizes]
    assert_replicas(step, *batches, unknown={0: unknown}, variables=[kernel], rtol=1e-4)


def test_a_batch_is_not_taken_for_a_length_that_happens_to_be_the_same() -> None:
    def step(x: tf.Tensor) -> Any:
        scores = tf.einsum("ntd,nsd->nts", x, x)
        return (
            scores,
            tf.transpose(scores, [1, 2, 0]),
            tf.reduce_sum(scores, 0),
            tf.reshape(scores, [tf.shape(x)[1], -1]),
            tf.reshape(tf.transpose(scores, [1, 0, 2]), [-1, tf.shape(x)[1]]),
        )

    batches = [[rows(5, t, 5)] for t in (5, 1, 10, 15, 7)]
    assert_replicas(step, *batches, replicas=(2, 5), unknown={0: [1]}, rtol=1e-5)


class OfEachLength:
    """Models of text, or of images, of any length; and a batch."""

    layers = keras.layers

    def text(self, *layers: Any, mask_zero: bool = True) -> keras.Model:
        tokens = keras.Input((None,), dtype="int32")
        embedded = self.layers.Embedding(WORDS, 8, mask_zero=mask_zero)(tokens)
        for layer in layers:
            embedded = layer(embedded)
        return keras.Model(tokens, embedded)

    def bidirectional(self) -> keras.Model:
        return self.text(
            self.layers.Bidirectional(self.layers.LSTM(3, return_sequences=True)),
            self.layers.Bidirectional(self.layers.GRU(3)),
            self.layers.Dense(WORDS),
        )

    def tagger(self) -> keras.Model:
        return self.text(self.layers.LSTM(8, return_sequences=True), self.layers.Dense(WORDS))

    def convolutions(self) -> keras.Model:
        return self.text(
            self.layers.Conv1D(8, 3, padding="same", activation="relu"),
            self.layers.AveragePooling1D(2, padding="same"),
            self.layers.SpatialDropout1D(0.2, seed=1),
            self.layers.SeparableConv1D(8, 3, padding="same"),
            self.layers.GroupNormalization(2),
            self.layers.GlobalMaxPooling1D(),
            self.layers.Dense(WORDS),
            mask_zero=False,
        )

    def transformer(self) -> keras.Model:
        def block(x: Any) -> Any:
            attention = self.layers.MultiHeadAttention(2, 4, dropout=0.1, seed=1)
            x = self.layers.LayerNormalization()(x + attention(x, x, use_causal_mask=True))
            hidden = self.layers.Dense(16, activation="gelu")(x)
            return self.layers.LayerNormalization()(x + self.layers.Dense(8)(hidden))

        return self.text(
            block, block, self.layers.GlobalAveragePooling1D(), self.layers.Dense(WORDS)
        )

    def attentions(self) -> keras.Model:
        def attend(x: Any) -> Any:
            return self.layers.Concatenate()(
                [
                    self.layers.Attention()([x, x]),
                    self.layers.AdditiveAttention()([x, x]),
                    self.layers.GroupQueryAttention(4, 4, 2)(x, x),
                ]
            )

        return self.text(
            attend, self.layers.GlobalMaxPooling1D(), self.layers.Dense(WORDS), mask_zero=False
        )

    def images(self) -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((None, None, 3)),
                self.layers.Conv2D(4, 3, padding="same", strides=2),
                self.layers.UpSampling2D(2),
                self.layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
                self.layers.MaxPooling2D(3, 2, padding="same"),
                self.layers.GlobalAveragePooling2D(),
                self.layers.Dense(WORDS),
            ]
        )

    def batch(self, model: keras.Model, length: int) -> list[Any]:
        rng = np.random.default_rng(length)
        if model.inputs[0].shape[-1] == 3:
            return [rows(5, length, length, 3), rng.integers(0, WORDS, 5)]
        x = rng.integers(1, WORDS, (5, length)).astype("int32")
        x[np.arange(length) >= rng.integers(1, length + 1, (5, 1))] = 0
        return [x, x if len(model.output_shape) == 3 else x[:, 0]]


WORDS = 11


def assert_no_more_is_exchanged(
    model: keras.Model, batches: Sequence[list[Any]], unknown: Mapping[int, Sequence[int]]
) -> None:
    """Assert that a step with unknown sizes trains right, and exchanges what one that knows does.

    Args:
        model: That is trained.
        batches: Inputs and labels; the first batch is that which the other step knows.
        unknown: As for `StepInReplicas`.
    """
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)

    def step(x: Any, y: Any) -> Any:
        return model.train_step((x, y))

    known = StepInReplicas(step, batches[0])
    traced = assert_replicas(
        step,
        *batches,
        replicas=[2],
        unknown=unknown,
        with_example=True,
        variables=[
            v.value
            for v in (*model.variables, *model.metrics_variables, *model.optimizer.variables)
        ],
        rtol=1e-4,
    )
    [built] = traced.built.values()
    known.traced = traced.traced
    assert exchanged(built) == exchanged(known.step(batches[0], 2))
    assert gathered(traced) == []


@cases(
    "name",
    ["images"],
    thorough=("tagger", "transformer", "bidirectional", "convolutions", "attentions"),
)
def test_models_exchange_no_more_for_unknown_lengths_than_for_known_ones(name: str) -> None:
    keras.utils.set_random_seed(1)
    models = OfEachLength()
    model = getattr(models, name)()
    batches = [models.batch(model, length) for length in (12, 7, 9)]
    unknown = {0: [1, 2] if name == "images" else [1], 1: range(1, np.ndim(batches[0][1]))}
    assert_no_more_is_exchanged(model, batches, unknown)
