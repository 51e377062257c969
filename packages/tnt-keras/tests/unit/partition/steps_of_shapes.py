"""Steps that give rows other shapes, join them, cut them and pick from them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from step_cases import Catalogue, floats, integers

STEPS = Catalogue()
step = STEPS.step


def rows_of(x: tf.Tensor) -> Any:
    return tf.shape(x)[0]


@step()
def scaled_by_a_scalar_of_bfloat16(w: Any, x: Any) -> Any:
    y = tf.cast(x @ w, tf.bfloat16)
    return tf.cast(y * tf.cast(tf.sqrt(0.5), tf.bfloat16), tf.float32)


@step()
def rows_repeated_one_by_one(w: Any, x: Any) -> Any:
    return tf.repeat(x @ w, 3, axis=0)


@step()
def rows_repeated_by_other_counts(w: Any, x: Any) -> Any:
    return tf.repeat(x @ w, tf.range(rows_of(x)) % 3, axis=0)


@step()
def columns_repeated(w: Any, x: Any) -> Any:
    return tf.repeat(x @ w, [1, 2, 1], axis=1) * tf.repeat(x @ w, 2, axis=1)[:, :4]


@step()
def batch_tiled(w: Any, x: Any) -> Any:
    return tf.tile(x @ w, [3, 2]) * tf.tile(x[:, :1], [3, 6])


@step()
def batch_tiled_by_its_own_size(w: Any, x: Any) -> Any:
    return tf.tile((x @ w)[:, :1], [rows_of(x), 2])


@step()
def rows_repeated_and_batch_tiled_make_pairs(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.repeat(y, rows_of(x), axis=0) * tf.tile(y, [rows_of(x), 1])


@step(floats(6, 4))
def time_merged_into_rows_and_back(w: Any, x: Any) -> Any:
    y = tf.tanh(tf.reshape(x, [-1, 4]) @ w)
    return tf.reshape(y, [-1, 6, 3])


@step(floats(6, 4))
def rows_merged_behind_time(w: Any, x: Any) -> Any:
    y = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, 4]) @ w
    return y, tf.reshape(y, [6, rows_of(x), 3])


@step(floats(6, 4))
def rows_merged_between_two_axes(w: Any, x: Any) -> Any:
    y = tf.transpose(x @ w, [1, 0, 2])
    return tf.reshape(y, [2, -1]), tf.reshape(y, [3, -1, 3])


@step(floats(6))
def features_split_in_front_of_rows(w: Any, x: Any) -> Any:
    y = tf.reshape(tf.transpose(x), [2, 3, rows_of(x)])
    return tf.einsum("abn,bc->acn", y, w[:3])


@step(floats(4))
def rows_mixed_with_features_by_a_reshape(w: Any, x: Any) -> Any:
    return tf.reshape(x @ w, [3, -1])


@step(floats(4))
def everything_flat(w: Any, x: Any) -> Any:
    y = tf.reshape(x @ w, [-1])
    return y, tf.reshape(y, [rows_of(x), 3]), tf.reshape(y, [1, rows_of(x), 1, 3])


@step(floats(2, 3))
def rows_split_by_a_reshape_that_shifts_them(w: Any, x: Any) -> Any:
    return tf.reshape(tf.transpose(x, [1, 0, 2]), [rows_of(x), 3, 2]) * w[0, 0]


@step()
def gram_flattened(w: Any, x: Any) -> Any:
    y = x @ w
    gram = y @ tf.transpose(y)
    flat = tf.reshape(gram, [-1])
    return flat, tf.reshape(flat, [rows_of(x), rows_of(x)]) * gram


@step()
def transposed_twice_and_reversed(w: Any, x: Any) -> Any:
    y = tf.transpose(x @ w)
    return tf.reverse(y, [0]), tf.reverse(y, [1]), tf.transpose(tf.reverse(y, [0, 1]))


@step()
def expanded_on_every_axis(w: Any, x: Any) -> Any:
    y = x @ w
    return [tf.expand_dims(y, axis) for axis in (0, 1, 2, -1, -3)]


@step(floats(1, 4))
def squeezed(w: Any, x: Any) -> Any:
    y = tf.squeeze(x, 1) @ w
    return y, tf.squeeze(tf.reduce_sum(y, 1, keepdims=True)), tf.squeeze(y[None, :, None], [0, 2])


@step()
def columns_rolled_and_rows_rolled(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.roll(y, 1, 1), tf.roll(y, 2, 0), tf.roll(y, [1, -1], [0, 1])


@step()
def next_row_minus_this_one(w: Any, x: Any) -> Any:
    y = x @ w
    return y[1:] - y[:-1], y[:1], y[-1]


@step(floats(5, 4))
def strides_along_features_and_rows(w: Any, x: Any) -> Any:
    y = x @ w
    return y[:, ::2], y[:, ::-1], y[::2], y[::-1, 1], y[..., 0], y[:, None, 1:3, ..., -1]


@step(floats(5, 4))
def slices_of_all_rows_in_disguise(w: Any, x: Any) -> Any:
    y, n = x @ w, rows_of(x)
    return y[:n], y[0:], y[-n:], y[: n + 7], y[:, :2], y[: tf.minimum(n, 99)]


@step()
def slices_by_half(w: Any, x: Any) -> Any:
    y, half = x @ w, rows_of(x) // 2
    return y[:half] * 2.0, y[half:], tf.reduce_sum(y[:half]) - tf.reduce_sum(y[half:])


@step()
def views_joined_and_parted(w: Any, x: Any) -> Any:
    both = tf.concat([x @ w, tf.sin(x) @ w], 0)
    a, b = tf.split(both, 2)
    n = rows_of(x)
    return both, a * b, both[:n] - both[n:], tf.reshape(both, [2, n, 3])


@step()
def views_joined_and_compared_with_each_other(w: Any, x: Any) -> Any:
    z = tf.math.l2_normalize(tf.concat([x @ w, tf.sin(x) @ w], 0), 1)
    similarity = z @ tf.transpose(z) / 0.5
    n = rows_of(x)
    positive = tf.concat([tf.range(n, 2 * n), tf.range(n)], 0)
    logits = similarity - 1e9 * tf.eye(2 * n)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(positive, logits)


@step()
def views_joined_in_turn(w: Any, x: Any) -> Any:
    y = tf.stack([x @ w, tf.sin(x) @ w], 1)
    return tf.reshape(y, [-1, 3]), tf.reshape(tf.transpose(y, [1, 0, 2]), [-1, 3])


@step()
def rows_joined_with_learned_rows(w: Any, x: Any) -> Any:
    y = tf.concat([x, tf.transpose(w), x], 0) @ w
    return y, y[rows_of(x) : rows_of(x) + 3]


@step()
def rows_joined_with_themselves_but_one(w: Any, x: Any) -> Any:
    return tf.concat([x @ w, x[1:] @ w], 0)


@step()
def three_blocks_split_unevenly(w: Any, x: Any) -> Any:
    y = tf.concat([x, 2 * x, 3 * x], 0) @ w
    n = rows_of(x)
    a, b = tf.split(y, [n, 2 * n])
    c, d = tf.split(y, [n + 1, 2 * n - 1])
    return a, b * 2.0, c, d


@step()
def rows_padded_with_rows(w: Any, x: Any) -> Any:
    y, n = x @ w, rows_of(x)
    return (
        tf.pad(y, [[n, 0], [1, 2]]),
        tf.pad(y, [[1, 0], [0, 0]]),
        tf.pad(y, [[0, 0], [2, 0]], constant_values=2.0),
    )


@step()
def rows_padded_by_mirrors(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.pad(y, [[0, 0], [1, 1]], "REFLECT"), tf.pad(y, [[2, 1], [0, 0]], "SYMMETRIC")


@step()
def stacked_on_every_axis_and_unstacked(w: Any, x: Any) -> Any:
    a, b = x @ w, tf.sin(x @ w)
    return (
        [tf.stack([a, b], axis) for axis in (0, 1, 2)],
        tf.unstack(a, axis=1),
        tf.unstack(tf.stack([b, a])),
    )


@step()
def learned_rows_beside_each_row(w: Any, x: Any) -> Any:
    n = rows_of(x)
    prefix = tf.tile(w[None, :2], [n, 1, 1])
    other = tf.broadcast_to(w[2], [n, 1, 3])
    return tf.concat([prefix, (x @ w)[:, None], other], 1)


@step()
def rows_picked_by_a_permutation(w: Any, x: Any) -> Any:
    y = x @ w
    order = tf.argsort(x[:, 0])
    return tf.gather(y, order), tf.gather(tf.gather(y, order), tf.math.invert_permutation(order))


@step(floats(4), integers(3))
def columns_picked_by_the_row(w: Any, x: Any, label: Any) -> Any:
    y = x @ w
    picked = tf.gather(y, label, axis=1, batch_dims=1)
    again = tf.gather_nd(y, label[:, None], batch_dims=1)
    positions = tf.stack([tf.range(rows_of(x)), label], 1)
    return picked, again, tf.gather_nd(y, positions), tf.reduce_sum(y * tf.one_hot(label, 3), 1)


@step(floats(4), integers(4, 2))
def weights_picked_by_the_row(w: Any, x: Any, label: Any) -> Any:
    rows = tf.gather(w, label)
    return (
        rows,
        tf.nn.embedding_lookup(w, label[:, 0]) * x[:, :1],
        tf.gather(w, label, axis=0)[:, 0],
    )


@step(floats(4), integers(3))
def rows_picked_by_other_rows(w: Any, x: Any, label: Any) -> Any:
    return tf.gather(x @ w, tf.minimum(label, rows_of(x) - 1))


@step(floats(4), integers(3, 2))
def elements_picked_by_coordinates(w: Any, x: Any, label: Any) -> Any:
    y = x @ w
    return (
        tf.gather_nd(w, label),
        tf.gather_nd(y, tf.zeros_like(label)),
        tf.gather_nd(y[None], label * 0),
    )


@step(floats(4), integers(6))
def rows_scattered_into_slots(w: Any, x: Any, slot: Any) -> Any:
    y = x @ w
    return (
        tf.scatter_nd(slot[:, None], y, [6, 3]),
        tf.tensor_scatter_nd_add(tf.zeros([6, 3]), slot[:, None], y),
        tf.tensor_scatter_nd_max(tf.zeros([6, 3]), slot[:, None], y),
    )


@step(floats(4), integers(4))
def rows_scattered_over_weights(w: Any, x: Any, slot: Any) -> Any:
    y = x @ w
    return tf.tensor_scatter_nd_update(w + 0.0, slot[:, None], y), tf.tensor_scatter_nd_sub(
        w + 0.0, slot[:, None], y
    )


@step(floats(4), integers(3))
def weights_scattered_over_rows(w: Any, x: Any, slot: Any) -> Any:
    y = x @ w
    positions = tf.stack([tf.range(rows_of(x)), slot], 1)
    return tf.tensor_scatter_nd_update(y, positions, x[:, 0]), tf.tensor_scatter_nd_update(
        y, [[0], [1]], w[:2]
    )


@step(floats(4), integers(3))
def segments_of_rows(w: Any, x: Any, group: Any) -> Any:
    y = x @ w
    return (
        tf.math.unsorted_segment_sum(y, group, 3),
        tf.math.unsorted_segment_mean(y, group, 3),
        tf.maximum(tf.math.unsorted_segment_max(y, group, 3), -9.0),
        tf.math.segment_sum(y, tf.sort(group)),
    )


@step(floats(4), integers(3))
def mean_of_the_group_beside_each_row(w: Any, x: Any, group: Any) -> Any:
    y = x @ w
    means = tf.math.unsorted_segment_sum(y, group, 3) / 2.0
    return y - tf.gather(means, group)


@step(floats(4), integers(2))
def masked_rows(w: Any, x: Any, mask: Any) -> Any:
    y = x @ w
    kept = tf.boolean_mask(y, mask > 0)
    return kept, tf.reduce_sum(kept, 0), tf.where(mask[:, None] > 0, y, 0.0), rows_of(kept)


@step(floats(4), integers(2))
def rows_dealt_into_two_heaps_and_stitched(w: Any, x: Any, heap: Any) -> Any:
    y = x @ w
    parts = tf.dynamic_partition(y, heap, 2)
    places = tf.dynamic_partition(tf.range(rows_of(x)), heap, 2)
    return tf.dynamic_stitch(places, [parts[0] * 2.0, tf.sin(parts[1])])


@step()
def triangles_of_the_batch(w: Any, x: Any) -> Any:
    y = x @ w
    gram = y @ tf.transpose(y)
    return (
        tf.linalg.band_part(gram, -1, 0),
        tf.linalg.diag_part(gram),
        tf.linalg.trace(gram),
        tf.linalg.set_diag(gram, tf.zeros(rows_of(x))),
    )


@step()
def rows_on_diagonals(w: Any, x: Any) -> Any:
    y = x @ w
    return (
        tf.linalg.diag(y),
        tf.linalg.diag(y[:, 0]),
        tf.linalg.diag(tf.transpose(y)),
        tf.linalg.diag(y, k=1),
    )


@step(floats(3, 3))
def diagonals_of_each_row(w: Any, x: Any) -> Any:
    y = x * w[:3]
    return (
        tf.linalg.diag_part(y),
        tf.linalg.diag_part(y, k=(-1, 1)),
        tf.linalg.band_part(y, 0, 1),
        tf.einsum("nii->ni", y),
    )


@step()
def diagonals_of_the_batch_by_einsum(w: Any, x: Any) -> Any:
    y = x @ w
    gram = tf.einsum("nd,md->nm", y, y)
    return tf.einsum("ii->i", gram), tf.einsum("nn->", gram), tf.einsum("nd,nd->n", y, y)


@step(floats(4, 4))
def equations_with_rows_anywhere(w: Any, x: Any) -> Any:
    return (
        tf.einsum("nab,bc->nac", x, w),
        tf.einsum("nab,bc->anc", x, w),
        tf.einsum("nab,nbc->ac", x, x),
        tf.einsum("nab,mab->nm", x, x),
        tf.einsum("...b,bc->...c", x, w),
        tf.einsum("n...,n...->n...", x, x[:, :, :1]),
        tf.einsum("nab->ba", x),
    )


@step()
def grids_of_rows(w: Any, x: Any) -> Any:
    y = tf.reduce_sum(x @ w, 1)
    a, b = tf.meshgrid(y, y)
    c, d = tf.meshgrid(w[0], y, indexing="ij")
    return a - b, c * d


@step()
def broadcast_against_the_batch_from_both_sides(w: Any, x: Any) -> Any:
    y = tf.reduce_sum(x @ w, 1)
    return (
        y[:, None] - y[None, :],
        y + y[:, None],
        x[:, None] * x[None, :, :],
        y[None, :] * w[:, :1],
    )


@step(floats(4), floats(1))
def rows_broadcast_over_features_and_features_over_rows(w: Any, x: Any, y: Any) -> Any:
    return x * y, y * w[:1], (x @ w) + w[0], y[:, 0] * y, tf.broadcast_to(y, [rows_of(x), 5])


@step()
def pairs_above_the_diagonal(w: Any, x: Any) -> Any:
    y = x @ w
    n = rows_of(x)
    difference = y[:, None] - y[None, :]
    mask = tf.range(n)[:, None] < tf.range(n)[None, :]
    return tf.boolean_mask(difference, mask)


@step()
def shapes_of_rows_as_numbers(w: Any, x: Any) -> Any:
    n = tf.cast(rows_of(x), "float32")
    size = tf.cast(tf.size(x @ w), "float32")
    return (
        (x @ w) / n,
        tf.reduce_sum(x @ w, 0) / (n - 1.0),
        tf.reduce_sum(x) / size,
        tf.shape(x),
        tf.size(x),
    )


@step()
def positions_of_rows_as_numbers(w: Any, x: Any) -> Any:
    place = tf.cast(tf.range(rows_of(x)), "float32")
    return (
        x @ w * place[:, None],
        tf.linspace(0.0, 1.0, rows_of(x)) * x[:, 0],
        tf.one_hot(tf.range(rows_of(x)), 4) @ w,
    )


@step()
def batch_of_a_size_in_the_code(w: Any, x: Any) -> Any:
    return tf.reduce_sum(x @ w) / 4.0, tf.zeros([4, 3]) + w, tf.reshape(tf.range(12.0), [4, 3]) * w


@step(floats(4, 4))
def space_moved_into_rows(w: Any, x: Any) -> Any:
    image = (x[..., None] * w[:, 0, None])[:, :, :, :1]
    blocks = tf.space_to_batch(image, [2, 2], [[0, 0], [0, 0]])
    return (
        blocks,
        tf.batch_to_space(blocks * 2.0, [2, 2], [[0, 0], [0, 0]]),
        tf.nn.space_to_depth(image, 2),
    )


@step(floats(4))
def sequences_reversed_by_their_lengths(w: Any, x: Any) -> Any:
    y = x[:, :, None] * w[None]
    lengths = tf.range(rows_of(x)) % 4 + 1
    return tf.reverse_sequence(y, lengths, seq_axis=1, batch_axis=0), tf.sequence_mask(lengths, 4)


@step(floats(4))
def ones_zeros_and_fills_like_rows(w: Any, x: Any) -> Any:
    y = x @ w
    return (
        tf.ones_like(y) * y,
        tf.zeros_like(y),
        tf.fill([rows_of(x), 2], w[0, 0]),
        tf.eye(rows_of(x)),
        tf.eye(2, batch_shape=[rows_of(x)]),
    )
