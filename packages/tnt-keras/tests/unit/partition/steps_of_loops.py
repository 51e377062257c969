"""Steps with loops, branches, lists, functions in functions and derivatives of derivatives."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from step_cases import Catalogue, floats, integers

STEPS = Catalogue()
step = STEPS.step


def rows_of(x: tf.Tensor) -> Any:
    return tf.shape(x)[0]


@step(floats(4), weights=(4, 4))
def rows_carried_through_a_loop(w: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a @ w) + x), [0, x])[1]


@step(floats(4), weights=(4, 4))
def state_of_zeros_becomes_rows(w: Any, x: Any) -> Any:
    start = tf.zeros([rows_of(x), 4])
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a @ w) + x), [0, start])[
        1
    ]


@step()
def totals_added_up_in_a_loop(w: Any, x: Any) -> Any:
    return tf.while_loop(
        lambda i, a: i < 3,
        lambda i, a: (i + 1, a + tf.reduce_sum(tf.sin(x @ w * tf.cast(i, "float32")), 0)),
        [0, tf.zeros(3)],
    )[1]


@step()
def totals_fed_back_to_rows(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a - tf.reduce_mean(a, 0) + y)), [0, y]
    )[1]


@step()
def turns_until_the_batch_has_settled(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.while_loop(
        lambda i, a: (i < 12) & (tf.reduce_sum(a * a) > 1.0),
        lambda i, a: (i + 1, 0.6 * a * tf.cos(w[0])),
        [0, y],
        maximum_iterations=20,
    )


@step(floats(4), integers(4))
def as_many_turns_as_the_batch_says(w: Any, x: Any, label: Any) -> Any:
    turns = tf.reduce_max(label) + 1
    return tf.while_loop(
        lambda i, a: i < turns,
        lambda i, a: (i + 1, tf.sin(a + x @ w)),
        [0, tf.zeros([rows_of(x), 3])],
    )


@step()
def no_turn_at_all(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.while_loop(
        lambda i, a, b: i < tf.cast(tf.reduce_sum(x) * 0.0, "int32"),
        lambda i, a, b: (i + 1, a + tf.reduce_sum(y, 0), tf.sin(b)),
        [0, w[0] * 1.0, y],
    )


@step(floats(4), integers(3))
def rows_leave_the_loop_one_by_one(w: Any, x: Any, label: Any) -> Any:
    def turn(i: Any, a: Any, active: Any) -> Any:
        a = tf.where(active[:, None], tf.tanh(a + x @ w), a)
        return i + 1, a, active & (i < label)

    return tf.while_loop(
        lambda i, a, active: tf.reduce_any(active),
        turn,
        [0, tf.zeros([rows_of(x), 3]), tf.ones([rows_of(x)], "bool")],
    )


@step()
def rows_and_totals_change_places(w: Any, x: Any) -> Any:
    y = x @ w
    gram = y @ tf.transpose(y) / 4.0
    fixed = tf.eye(rows_of(x))
    return tf.while_loop(
        lambda i, a, b: i < 3,
        lambda i, a, b: (i + 1, tf.tanh(b), tf.transpose(a) + 0.5),
        [0, gram, fixed],
    )


@step()
def rows_alternate_between_axes(w: Any, x: Any) -> Any:
    y = x @ w
    gram = y @ tf.transpose(y) / 4.0
    return tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, tf.transpose(tf.tanh(a)) + gram[:1]), [0, gram]
    )[1]


@step(floats(4), weights=(4, 4))
def a_loop_in_a_loop(w: Any, x: Any) -> Any:
    def inner(a: Any) -> Any:
        return tf.while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, tf.tanh(b @ w + a)), [0, a])[
            1
        ]

    return tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, inner(a) * 1.1), [0, x])[1]


@step()
def a_loop_in_a_loop_with_totals(w: Any, x: Any) -> Any:
    y = x @ w

    def inner(a: Any) -> Any:
        return tf.while_loop(
            lambda j, b: j < 2, lambda j, b: (j + 1, b + tf.reduce_sum(tf.tanh(y + a), 0)), [0, a]
        )[1]

    return tf.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, inner(a) / 4.0), [0, tf.zeros(3)]
    )[1]


@step()
def a_branch_in_a_loop(w: Any, x: Any) -> Any:
    y = x @ w

    def turn(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(
            tf.reduce_mean(a) > 0, lambda: tf.tanh(a) - 0.3, lambda: tf.sin(a + y) + 0.1
        )

    return tf.while_loop(lambda i, a: i < 4, turn, [0, y])[1]


@step()
def a_loop_in_a_branch(w: Any, x: Any) -> Any:
    y = x @ w

    def loop() -> Any:
        return tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, tf.tanh(a + y)), [0, y])[1]

    return tf.cond(tf.reduce_sum(y) > -100.0, loop, lambda: y)


@step()
def branches_with_rows_totals_and_weights(w: Any, x: Any) -> Any:
    y = x @ w
    positive = tf.reduce_sum(y) > 0.0
    rows = tf.cond(positive, lambda: tf.sin(y), lambda: tf.zeros_like(y))
    total = tf.cond(positive, lambda: tf.reduce_sum(y, 0), lambda: w[0] * 2.0)
    mixed = tf.cond(positive, lambda: (y, tf.reduce_mean(y, 0)), lambda: (y * 2.0, w[1] + 0.0))
    return rows, total, mixed


@step()
def branches_of_other_sizes(w: Any, x: Any) -> Any:
    y = x @ w
    some = tf.cond(tf.reduce_sum(y) > 0.0, lambda: y, lambda: y[1:])
    other = tf.cond(tf.reduce_sum(y) < 0.0, lambda: w + 0.0, lambda: 2.0 * y)
    return tf.reduce_sum(some, 0), some, other


@step()
def branches_with_extremes(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.cond(tf.reduce_sum(y) > 0.0, lambda: tf.reduce_max(y, 0), lambda: w[0] + 0.0)


@step()
def one_of_four_branches(w: Any, x: Any) -> Any:
    y = x @ w
    which = tf.cast(tf.reduce_sum(tf.cast(x > 0.0, "float32")), "int32") % 4
    return tf.switch_case(
        which,
        [
            lambda: y,
            lambda: tf.sin(y),
            lambda: y * y * w[0],
            lambda: tf.broadcast_to(w[1], tf.shape(y)),
        ],
    )


@step()
def branches_in_branches(w: Any, x: Any) -> Any:
    y = x @ w

    def inner() -> Any:
        return tf.cond(tf.reduce_max(y) > 1.0, lambda: y * w[0], lambda: y + w[0])

    return tf.cond(tf.reduce_sum(y) > -100.0, inner, lambda: tf.zeros_like(y))


@step(floats(4), integers(3, 1))
def losses_chosen_by_conditions(w: Any, x: Any, label: Any) -> Any:
    y, number = tf.sin(x @ w), tf.reduce_max(label)
    return tf.case(
        [
            (tf.equal(number, 0), lambda: tf.reduce_mean(y**2)),
            (tf.equal(number, 1), lambda: tf.reduce_mean(tf.abs(y))),
        ],
        default=lambda: tf.reduce_max(tf.abs(y), 0) + tf.reduce_mean(tf.exp(y)),
    )


@step()
def conditions_in_a_loop(w: Any, x: Any) -> Any:
    def turn(i: Any, y: Any) -> Any:
        small = tf.reduce_max(tf.abs(y)) < 1.0
        inner = lambda: tf.cond(tf.equal(i, 1), lambda: tf.tanh(y), lambda: y * w[0])  # noqa: E731
        return i + 1, tf.cond(small, inner, lambda: tf.sin(y))

    return tf.while_loop(lambda i, y: i < 4, turn, [0, x @ w])[1]


@step()
def case_of_conditions(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.case(
        [(tf.reduce_sum(y) > 3.0, lambda: y), (tf.reduce_sum(y) > 0.0, lambda: -y)], lambda: 2.0 * y
    )


@step(floats(4), weights=(4, 4))
def states_of_all_turns_kept(w: Any, x: Any) -> Any:
    def turn(i: Any, a: Any, states: Any) -> Any:
        a = tf.tanh(a @ w)
        return i + 1, a, states.write(i, a)

    states = tf.TensorArray("float32", 3)
    return tf.transpose(
        tf.while_loop(lambda i, a, s: i < 3, turn, [0, x, states])[2].stack(), [1, 0, 2]
    )


@step(floats(5, 4), weights=(4, 4))
def steps_of_time_read_from_a_list(w: Any, x: Any) -> Any:
    steps = tf.TensorArray("float32", 5).unstack(tf.transpose(x, [1, 0, 2]))
    return tf.while_loop(
        lambda i, a: i < 5,
        lambda i, a: (i + 1, tf.tanh(a @ w + steps.read(i))),
        [0, tf.zeros([rows_of(x), 4])],
    )[1]


@step()
def rows_read_one_by_one_from_a_list(w: Any, x: Any) -> Any:
    rows = tf.TensorArray("float32", rows_of(x)).unstack(x @ w)
    return tf.while_loop(
        lambda i, a: i < rows_of(x),
        lambda i, a: (i + 1, tf.tanh(0.5 * a + rows.read(i))),
        [0, tf.zeros(3)],
    )[1]


@step()
def totals_in_a_list(w: Any, x: Any) -> Any:
    totals = tf.TensorArray("float32", 3)
    for i in range(3):
        totals = totals.write(i, tf.reduce_sum(x @ w, 0) * float(i))
    return totals.stack(), totals.gather([2, 1])


@step()
def a_list_of_rows_totals_and_weights(w: Any, x: Any) -> Any:
    values = tf.TensorArray("float32", 3, infer_shape=False)
    values = values.write(0, x @ w).write(1, tf.reduce_sum(x @ w, 0)).write(2, w * 1.0)
    return values.read(0), values.read(1), values.read(2)


@step()
def a_list_of_blocks_joined(w: Any, x: Any) -> Any:
    blocks = tf.TensorArray("float32", 2, infer_shape=False).write(0, x @ w).write(1, tf.sin(x @ w))
    return blocks.concat()


@step()
def a_list_split_and_scattered(w: Any, x: Any) -> Any:
    y = x @ w
    split = tf.TensorArray("float32", 2, infer_shape=False).split(y, [1, rows_of(x) - 1])
    scattered = tf.TensorArray("float32", 3, element_shape=[3]).scatter([2, 0], y[:2])
    return split.read(1), scattered.stack()


@step()
def a_list_that_grows(w: Any, x: Any) -> Any:
    def turn(i: Any, values: Any) -> Any:
        return i + 1, values.write(i, tf.sin(x @ w) * tf.cast(i, "float32"))

    return tf.while_loop(
        lambda i, v: i < tf.cast(tf.reduce_max(tf.abs(x)) * 0.0, "int32") + 3, turn,
        [0, tf.TensorArray("float32", 0, dynamic_size=True, element_shape=[None, 3])],
    )[1].stack()  # fmt: skip


@step()
def scanned_over_rows(w: Any, x: Any) -> Any:
    return tf.scan(lambda a, b: tf.tanh(0.5 * a + b), x @ w, tf.zeros(3))


@step(floats(5, 4))
def scanned_over_time(w: Any, x: Any) -> Any:
    y = tf.transpose(x @ w, [1, 0, 2])
    return tf.scan(lambda a, b: tf.tanh(0.5 * a + b), y, reverse=True)


@step()
def folded_over_rows(w: Any, x: Any) -> Any:
    return tf.foldl(lambda a, b: tf.tanh(0.5 * a + b), x @ w), tf.foldr(
        lambda a, b: 0.5 * a + b, x @ w
    )


@step()
def mapped_over_rows(w: Any, x: Any) -> Any:
    return tf.map_fn(lambda row: tf.linalg.matvec(w, row, transpose_a=True) * tf.reduce_sum(row), x)


@step(floats(4), integers(3))
def mapped_over_rows_with_branches(w: Any, x: Any, label: Any) -> Any:
    y = x @ w
    return tf.map_fn(
        lambda pair: tf.cond(pair[1] > 0, lambda: pair[0] * 2.0, lambda: tf.sin(pair[0])),
        (y, label), fn_output_signature=tf.float32,
    )  # fmt: skip


@step()
def mapped_over_learned_rows(w: Any, x: Any) -> Any:
    return tf.map_fn(lambda row: tf.reduce_sum(x * row), tf.transpose(w))


@step(floats(3, 4))
def vectorized_over_rows(w: Any, x: Any) -> Any:
    return tf.vectorized_map(lambda row: tf.tanh(row @ w) - tf.reduce_mean(row), x)


@step()
def vectorized_over_rows_with_the_batch_inside(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.vectorized_map(lambda row: tf.reduce_sum(tf.square(y - row), 1), y)


@step(floats(3), weights=(3, 2))
def jacobians_of_each_row(w: Any, x: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.tanh(x @ w)
        total = tf.reduce_sum(y, 0)
    return tape.batch_jacobian(y, x), tape.jacobian(total, x)


@step()
def penalty_on_gradients(w: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.tanh(x @ w), 1)
    slope = tape.gradient(y, x)
    return y, tf.square(tf.norm(slope, axis=1) - 1.0)


@step()
def gradient_of_the_gradient_of_weights(w: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        value = tf.convert_to_tensor(w) + 0.0
        tape.watch(value)
        loss = tf.reduce_mean(tf.square(tf.tanh(x @ value)))
    inner = tape.gradient(loss, value)
    return tf.reduce_mean(tf.square(x @ (value - 0.5 * inner))), tf.norm(inner)


@step()
def weights_moved_up_the_slope_first(w: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        value = w + 0.0
        tape.watch(value)
        loss = tf.reduce_mean(tf.square(tf.sin(x @ value)))
    slope = tape.gradient(loss, value)
    return tf.reduce_mean(tf.square(tf.sin(x @ (w + 0.1 * slope / tf.norm(slope)))))


@step()
def forward_over_backward(w: Any, x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = tf.tanh(x @ w)
        total = tf.reduce_mean(y * y, 0)
    return accumulator.jvp(y), accumulator.jvp(total)


@step()
def own_gradient_of_rows(w: Any, x: Any) -> Any:
    @tf.custom_gradient
    def clipped(y: Any) -> Any:
        return tf.sin(y), lambda upstream: tf.clip_by_value(upstream, -0.1, 0.1)

    return clipped(x @ w)


@step()
def own_gradient_with_totals(w: Any, x: Any) -> Any:
    @tf.custom_gradient
    def centred(y: Any) -> Any:
        mean = tf.reduce_mean(y, 0)
        return (
            y - mean,
            lambda upstream: upstream - tf.reduce_sum(upstream, 0) / tf.cast(rows_of(y), "float32"),
        )

    return centred(x @ w), centred(tf.transpose(x @ w))


@step()
def own_gradient_for_weights(w: Any, x: Any) -> Any:
    @tf.custom_gradient
    def scaled(value: Any, y: Any) -> Any:
        return y * value[0], lambda upstream: (
            tf.pad(tf.reduce_sum(upstream * y, 0)[None] * 2.0, [[0, 3], [0, 0]]),
            upstream * value[0],
        )

    return scaled(tf.convert_to_tensor(w), x @ w)


@step()
def gradient_reversed(w: Any, x: Any) -> Any:
    @tf.custom_gradient
    def reverse(y: Any) -> Any:
        return tf.identity(y), lambda upstream: -2.0 * upstream

    return reverse(x @ w) * tf.stop_gradient(x[:, :1]), tf.grad_pass_through(tf.round)(x @ w)


@step()
def computed_again_for_the_gradient(w: Any, x: Any) -> Any:
    return tf.recompute_grad(lambda y: tf.tanh(tf.sin(y) - tf.reduce_mean(y, 0)))(x @ w)


@step()
def functions_in_functions(w: Any, x: Any) -> Any:
    @tf.function(autograph=False)
    def inner(y: Any) -> Any:
        return tf.sin(y) @ tf.transpose(w)

    @tf.function(autograph=False)
    def outer(y: Any) -> Any:
        return inner(inner(y) @ w), tf.reduce_sum(inner(y), 0)

    return outer(x @ w), inner(tf.transpose(tf.transpose(x @ w)))


@step()
def functions_of_other_shapes_with_one_name(w: Any, x: Any) -> Any:
    def made(factor: float, axis: int) -> Any:
        return tf.function(lambda y: tf.reduce_sum(y * factor, axis), autograph=False)

    return made(2.0, 0)(x @ w), made(3.0, 1)(x @ w), made(2.0, 0)(w)


@step()
def functions_that_are_not_inlined_and_compiled_ones(w: Any, x: Any) -> Any:
    kept = tf.function(
        lambda y: tf.tanh(y) - tf.reduce_mean(y, 0),
        autograph=False,
        experimental_attributes={"_noinline": True},
    )
    compiled = tf.function(
        lambda y: tf.sin(y) * tf.reduce_sum(y, 0), autograph=False, jit_compile=True
    )
    return kept(x @ w), compiled(x @ w)


@step(floats(6, 4), weights=(4, 4))
def lengths_of_rows_in_a_loop(w: Any, x: Any) -> Any:
    length = tf.range(rows_of(x)) % 6 + 1

    def turn(i: Any, a: Any) -> Any:
        return i + 1, tf.where((i < length)[:, None], tf.tanh(a @ w + x[:, i]), a)

    return tf.while_loop(
        lambda i, a: i < tf.reduce_max(length), turn, [0, tf.zeros([rows_of(x), 4])]
    )[1]


@step()
def a_loop_of_python(w: Any, x: Any) -> Any:
    y = x @ w
    for i in range(4):
        y = tf.tanh(y - tf.reduce_mean(y, 0) * float(i)) + x @ w
    return y


@step()
def a_loop_over_all_pairs_of_rows(w: Any, x: Any) -> Any:
    y = x @ w
    n = rows_of(x)

    def turn(i: Any, total: Any) -> Any:
        other = tf.roll(y, i, 0)
        return i + 1, total + tf.reduce_sum(tf.square(y - 0.5 * other))

    return tf.while_loop(lambda i, t: i < n, turn, [0, 0.0])[1]


@step()
def beams_of_each_row(w: Any, x: Any) -> Any:
    n = rows_of(x)

    def turn(i: Any, score: Any, token: Any) -> Any:
        options = score[:, :, None] + tf.nn.log_softmax(
            tf.gather(tf.transpose(w), token) * x[:, None]
        )
        best, place = tf.math.top_k(tf.reshape(options, [n, -1]), 2)
        return i + 1, best, place % 3

    return tf.while_loop(
        lambda i, s, t: i < 3, turn, [0, tf.zeros([n, 2]), tf.zeros([n, 2], "int32")]
    )
