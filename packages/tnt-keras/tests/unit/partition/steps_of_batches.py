"""Steps whose numbers depend on the batch as a whole: totals, order, pairs, matrices of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from step_cases import Catalogue, floats, integers

STEPS = Catalogue()
step = STEPS.step


def rows_of(x: tf.Tensor) -> Any:
    return tf.shape(x)[0]


@step()
def totals_of_every_kind(w: Any, x: Any) -> Any:
    y = x @ w
    return (
        tf.reduce_sum(y, 0), tf.reduce_mean(y, 0), tf.reduce_max(y, 0), tf.reduce_min(y),
        tf.reduce_prod(y, 0), tf.reduce_logsumexp(y, 0), tf.math.reduce_euclidean_norm(y, 0),
    )  # fmt: skip


@step()
def spread_of_the_batch(w: Any, x: Any) -> Any:
    y = x @ w
    mean, variance = tf.nn.moments(y, [0])
    return (
        mean,
        variance,
        tf.math.reduce_std(y, 0),
        tf.math.reduce_variance(y),
        (y - mean) * tf.math.rsqrt(variance + 1e-3),
    )


@step()
def roots_and_logarithms_of_means(w: Any, x: Any) -> Any:
    loss = tf.reduce_mean(tf.square(x @ w))
    return tf.sqrt(loss), tf.exp(-loss), tf.math.log1p(loss), loss * loss, 1.0 / loss


@step(floats(4), floats())
def correlation_with_the_target(w: Any, x: Any, y: Any) -> Any:
    p = tf.reduce_sum(x @ w, 1)
    p, y = p - tf.reduce_mean(p), y - tf.reduce_mean(y)
    return tf.reduce_sum(p * y) / tf.sqrt(tf.reduce_sum(p * p) * tf.reduce_sum(y * y))


@step(floats(4), integers(2))
def mean_over_masked_rows(w: Any, x: Any, mask: Any) -> Any:
    mask = tf.cast(mask, "float32")
    loss = tf.reduce_sum(tf.square(x @ w), 1)
    return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask), tf.math.divide_no_nan(
        tf.reduce_sum(loss * mask), tf.reduce_sum(1.0 - mask)
    )


@step()
def products_of_totals_and_of_means(w: Any, x: Any) -> Any:
    y = x @ w
    total, mean = tf.reduce_sum(y, 0), tf.reduce_mean(y, 0)
    return (
        total * mean,
        total + w[0],
        total - mean,
        tf.add_n([total, mean, w[1]]),
        -total,
        total / 3.0,
        2.0 * mean,
    )


@step()
def totals_through_what_is_not_linear(w: Any, x: Any) -> Any:
    total = tf.reduce_sum(x @ w, 0)
    return (
        tf.nn.relu(total), tf.abs(total), tf.maximum(total, 0.5), tf.where(total > 0, total, -w[0]),
        tf.round(total), tf.cast(total, "int32"), tf.cast(tf.cast(total, "bfloat16"), "float32"),
        tf.clip_by_value(total, -1.0, 1.0), tf.nn.softmax(total), tf.math.is_finite(total),
    )  # fmt: skip


@step()
def totals_in_shapes(w: Any, x: Any) -> Any:
    total = tf.transpose(x) @ (x @ w)
    return (
        tf.reshape(total, [-1]), tf.transpose(total), total[1:], total[:, None],
        tf.concat([total, total], 0),
        tf.pad(total, [[1, 0], [0, 0]]), tf.pad(total, [[1, 0], [0, 0]], constant_values=1.0),
        tf.stack([total, w]), tf.gather(total, [2, 0]), tf.reduce_sum(total, 1),
        tf.reverse(total, [0]),
        tf.tile(total, [2, 1]), tf.roll(total, 1, 0), tf.linalg.diag(total), tf.repeat(total, 2, 0),
    )  # fmt: skip


@step()
def totals_against_rows(w: Any, x: Any) -> Any:
    y = x @ w
    total = tf.reduce_sum(y, 0)
    return (
        y - total,
        y * total,
        total[None] / (1.0 + y * y),
        tf.maximum(y, total),
        total + y[:, None],
    )


@step()
def totals_of_totals_over_two_axes_at_once(w: Any, x: Any) -> Any:
    y = x[:, None] * tf.transpose(w)[None]
    return (
        tf.reduce_sum(y, [0, 1]),
        tf.reduce_sum(y, [0, -1]),
        tf.reduce_mean(y, [0, 2], keepdims=True),
        tf.reduce_max(y, [1, 0]),
        tf.reduce_sum(y, []),
    )


@step(floats(4), integers(5))
def totals_of_whole_numbers(w: Any, x: Any, label: Any) -> Any:
    n = tf.reduce_sum(label)
    mean = tf.reduce_mean(label)
    return (
        x @ w,
        n,
        mean,
        n // 2,
        n % 3,
        tf.reduce_prod(label),
        tf.cast(n, "float32") / 2.0,
        -n,
        n * n,
        tf.cast(n, "int8"),
        tf.bitwise.bitwise_xor(n, 5),
    )


@step(floats(4), integers(2))
def truths_about_the_batch(w: Any, x: Any, label: Any) -> Any:
    y = x @ w
    any_, all_ = tf.reduce_any(label > 0), tf.reduce_all(y < 9.0)
    return (
        tf.where(any_, y, 2.0 * y),
        all_,
        any_ & ~all_,
        tf.cast(any_, "float32") * y,
        tf.reduce_any(y > 0, 0),
    )


@step()
def cumulated_over_rows_and_over_features(w: Any, x: Any) -> Any:
    y = tf.tanh(x @ w)
    return (
        tf.cumsum(y, 0), tf.cumsum(y, 1, reverse=True), tf.cumsum(y, 0, exclusive=True),
        tf.math.cumprod(y, 1), tf.math.cumprod(y, 0), tf.math.cumulative_logsumexp(y, 1),
    )  # fmt: skip


@step()
def sorted_over_rows_and_over_features(w: Any, x: Any) -> Any:
    y = x @ w
    return (
        tf.sort(y, 1),
        tf.sort(y, 0),
        tf.argsort(y, 0),
        tf.argsort(y, 1, "DESCENDING"),
        tf.argmax(y, 0),
        tf.argmax(y, 1),
        tf.argmin(y, 0),
    )


@step()
def best_rows_and_best_features(w: Any, x: Any) -> Any:
    y = x @ w
    values, places = tf.math.top_k(y, 2)
    return (
        values,
        places,
        tf.math.top_k(tf.transpose(y), 2),
        tf.math.in_top_k(places[:, 0], y, 1),
        tf.nn.relu(values),
    )


@step()
def quantiles_of_the_batch(w: Any, x: Any) -> Any:
    y = tf.sort(tf.reduce_sum(x @ w, 1))
    n = rows_of(x)
    return y[n // 2], (y[(n - 1) // 2] + y[n // 2]) / 2.0, y[0], y[-1], y[1:-1]


@step()
def softmax_over_rows_and_over_features(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.nn.softmax(y, 0), tf.nn.softmax(y, 1), tf.nn.log_softmax(y, 0), tf.nn.log_softmax(y)


@step(floats(4), integers(4))
def contrastive_with_labels(w: Any, x: Any, label: Any) -> Any:
    z = tf.math.l2_normalize(x @ w, 1)
    similarity = z @ tf.transpose(z) / 0.3
    same = tf.cast(label[:, None] == label[None, :], "float32") - tf.eye(rows_of(x))
    log = similarity - tf.reduce_logsumexp(similarity - 1e9 * tf.eye(rows_of(x)), 1, keepdims=True)
    return -tf.math.divide_no_nan(tf.reduce_sum(same * log, 1), tf.reduce_sum(same, 1))


@step(floats(4), integers(3))
def hard_triplets(w: Any, x: Any, label: Any) -> Any:
    z = x @ w
    squares = tf.reduce_sum(z * z, 1)
    distance = squares[:, None] - 2.0 * z @ tf.transpose(z) + squares[None]
    same = label[:, None] == label[None]
    positive = tf.reduce_max(tf.where(same, distance, 0.0), 1)
    negative = tf.reduce_min(tf.where(same, 1e9, distance), 0)
    return tf.nn.relu(positive - negative + 0.2)


@step(floats(4), floats())
def risk_sets_in_the_order_of_times(w: Any, x: Any, time: Any) -> Any:
    risk = tf.reduce_sum(x @ w, 1)
    order = tf.argsort(time, direction="DESCENDING")
    risk = tf.gather(risk, order)
    return risk - tf.math.cumulative_logsumexp(risk)


@step(floats(4), floats())
def ranked_pairs(w: Any, x: Any, y: Any) -> Any:
    p = tf.reduce_sum(x @ w, 1)
    better = tf.cast(y[:, None] > y[None, :], "float32")
    return tf.reduce_sum(better * tf.nn.softplus(p[None, :] - p[:, None])) / (
        tf.reduce_sum(better) + 1.0
    )


@step()
def kernels_between_rows(w: Any, x: Any) -> Any:
    y = x @ w
    squares = tf.reduce_sum(tf.square(y[:, None] - y[None]), -1)
    kernel = tf.exp(-squares)
    n = tf.cast(rows_of(x), "float32")
    centred = (
        kernel
        - tf.reduce_mean(kernel, 0)
        - tf.reduce_mean(kernel, 1, keepdims=True)
        + tf.reduce_mean(kernel)
    )
    return tf.reduce_sum(centred * centred) / (n * n), tf.linalg.trace(kernel) / n


@step()
def transported_in_turns(w: Any, x: Any) -> Any:
    cost = x @ w @ tf.transpose(x @ w) / 3.0
    for _ in range(3):
        cost -= tf.reduce_logsumexp(cost, 0, keepdims=True)
        cost -= tf.reduce_logsumexp(cost, 1, keepdims=True)
    return tf.exp(cost)


@step(rtol=3e-4)
def whitened(w: Any, x: Any) -> Any:
    y = x @ w
    y -= tf.reduce_mean(y, 0)
    covariance = tf.transpose(y) @ y / tf.cast(rows_of(x), "float32") + tf.eye(3)
    return tf.transpose(tf.linalg.triangular_solve(tf.linalg.cholesky(covariance), tf.transpose(y)))


@step(rtol=3e-4)
def determinants_and_inverses_of_the_batch(w: Any, x: Any) -> Any:
    y = tf.tanh(x @ w)
    gram = y @ tf.transpose(y) + 2.0 * tf.eye(rows_of(x))
    return (
        tf.linalg.logdet(gram),
        tf.linalg.inv(gram),
        tf.linalg.solve(gram, y),
        tf.linalg.det(gram),
    )


@step(floats(3, 3), weights=(3, 3), rtol=3e-4)
def matrices_of_each_row(w: Any, x: Any) -> Any:
    y = tf.tanh(x) @ w
    positive = y @ tf.linalg.matrix_transpose(y) + 2.0 * tf.eye(3)
    return (
        tf.linalg.inv(positive), tf.linalg.cholesky(positive), tf.linalg.solve(positive, y),
        tf.linalg.det(positive),
        tf.linalg.logdet(positive), tf.linalg.expm(0.1 * y), tf.linalg.matrix_transpose(y),
        tf.linalg.trace(y),
        tf.linalg.solve(positive, tf.broadcast_to(w, tf.shape(y))), tf.linalg.adjoint(y),
        tf.linalg.cross(y, x),
    )  # fmt: skip


@step(rtol=3e-4)
def singular_values_of_the_batch(w: Any, x: Any) -> Any:
    y = tf.concat([x @ w, 3.0 * tf.eye(3)], 0)
    return (
        tf.linalg.svd(y, compute_uv=False),
        tf.linalg.norm(y),
        tf.linalg.norm(y, axis=0),
        tf.linalg.norm(y, ord=1),
    )


@step(rtol=3e-4)
def eigenvalues_of_the_covariance(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.linalg.eigvalsh(
        tf.transpose(y) @ y + tf.linalg.diag([1.0, 2.0, 4.0])
    ), tf.linalg.eigh(tf.eye(3) * tf.reduce_mean(y))[0]


@step(floats(8))
def spectra_of_rows_and_of_the_batch(w: Any, x: Any) -> Any:
    y = tf.cast(x * tf.reshape(w, [-1])[:8], "complex64")
    return (
        tf.signal.fft(y),
        tf.signal.fft(tf.transpose(y)),
        tf.signal.rfft(x),
        tf.abs(tf.signal.ifft(y)),
        tf.signal.fft2d(y),
    )


@step(floats(2, 8))
def frames_and_cosine_transforms_of_rows(w: Any, x: Any) -> Any:
    y = x * tf.reshape(w, [-1])[:8]
    return tf.signal.frame(y, 4, 2), tf.signal.dct(y), tf.abs(tf.signal.stft(y, 4, 2))


@step()
def complex_totals(w: Any, x: Any) -> Any:
    y = tf.complex(x @ w, tf.sin(x @ w))
    return (
        tf.reduce_sum(y, 0),
        tf.reduce_mean(y, 0),
        tf.abs(tf.reduce_sum(y)),
        tf.math.conj(y),
        tf.math.angle(y) * 0.1,
        tf.matmul(y, y, adjoint_a=True),
    )


@step()
def clipped_by_norms(w: Any, x: Any) -> Any:
    y = x @ w
    return (
        tf.clip_by_norm(y, 1.0),
        tf.clip_by_norm(y, 1.0, axes=[1]),
        tf.clip_by_global_norm([y, w], 1.0)[0],
        tf.linalg.global_norm([y, x]),
    )


@step()
def normalized_over_rows_and_over_features(w: Any, x: Any) -> Any:
    y = x @ w
    return (
        tf.math.l2_normalize(y, 0),
        tf.math.l2_normalize(y, 1),
        y / tf.reduce_sum(tf.abs(y)),
        y / tf.reduce_max(tf.abs(y), 0),
    )


@step(floats(4), integers(4))
def counts_and_histograms(w: Any, x: Any, label: Any) -> Any:
    y, weights = x @ w, tf.stop_gradient(x[:, 0])
    return (
        y, tf.math.bincount(label, minlength=4, maxlength=4),
        tf.math.bincount(label, weights, 4, 4),
        tf.histogram_fixed_width(y, [-1.0, 1.0], 5),
        tf.math.confusion_matrix(label, tf.argmax(x, 1), 4),
        tf.math.count_nonzero(label), tf.math.count_nonzero(y > 0, 0),
        tf.searchsorted([0.0, 1.0], y[:, 0]),
    )  # fmt: skip


@step(floats(4), integers(3))
def unique_labels_and_means_of_their_rows(w: Any, x: Any, label: Any) -> Any:
    y = x @ w
    values, place, count = tf.unique_with_counts(label)
    sums = tf.math.unsorted_segment_sum(y, place, tf.size(values))
    return values, sums / tf.cast(count, "float32")[:, None]


@step(floats(4), integers(2))
def rows_where_something_holds(w: Any, x: Any, label: Any) -> Any:
    y = x @ w
    places = tf.where(label > 0)
    return (
        places,
        tf.gather_nd(y, places),
        tf.size(places),
        tf.reduce_sum(tf.gather(y, places[:, 0])),
    )


@step()
def rows_as_filters_and_as_channels(w: Any, x: Any) -> Any:
    signal = tf.reshape(x @ w, [1, -1, 3])
    return (
        tf.nn.conv1d(signal, tf.reshape(w, [2, 3, 2]), 1, "SAME"),
        tf.nn.max_pool1d(signal, 2, 1, "VALID"),
        tf.nn.avg_pool1d(signal, 2, 2, "SAME"),
    )


@step()
def slope_fitted_to_the_batch(w: Any, x: Any) -> Any:
    y = x @ w
    return tf.linalg.lstsq(tf.concat([x, 2.0 * tf.eye(4)], 0), tf.concat([y, w * w], 0))


@step()
def outer_products_of_the_batch(w: Any, x: Any) -> Any:
    y = x @ w
    return (
        tf.tensordot(x, y, [[0], [0]]),
        tf.tensordot(y, y, 0)[:, 0],
        tf.matmul(x, y, transpose_a=True),
        tf.matmul(w, y, transpose_b=True),
        tf.linalg.matvec(y, w[0]),
    )


@step(floats(3, 4))
def attention_among_the_rows_of_a_batch(w: Any, x: Any) -> Any:
    y = tf.reduce_mean(x, 1) @ w
    score = tf.nn.softmax(y @ tf.transpose(y))
    within = tf.nn.softmax(tf.matmul(x @ w, x @ w, transpose_b=True))
    return score @ y, within @ x


@step()
def nearest_learned_row(w: Any, x: Any) -> Any:
    codes = tf.transpose(w)
    distance = tf.reduce_sum(tf.square(x[:, None] - codes), -1)
    nearest = tf.argmin(distance, 1)
    code = tf.gather(codes, nearest)
    counts = tf.reduce_sum(tf.one_hot(nearest, 3), 0)
    return (
        x + tf.stop_gradient(code - x),
        tf.reduce_mean(tf.square(code - tf.stop_gradient(x))),
        counts / tf.reduce_sum(counts),
    )


@step()
def decimals_of_low_precision(w: Any, x: Any) -> Any:
    y = tf.cast(x @ w, "bfloat16")
    return (
        tf.nn.relu(y),
        tf.cast(y, "float32") * 2.0,
        tf.cast(tf.round(tf.cast(y, "float32") * 4.0), "int8"),
        tf.cast(y, "float64"),
    )


@step()
def doubles(w: Any, x: Any) -> Any:
    y = tf.cast(x @ w, "float64")
    return (
        tf.reduce_sum(y, 0),
        tf.cast(tf.reduce_mean(y), "float32"),
        tf.cast(tf.reduce_sum(x @ w, 0), "float64"),
    )


@step()
def numbers_that_are_not_finite(w: Any, x: Any) -> Any:
    y = x @ w
    zero = tf.zeros_like(y)
    wrong = tf.stop_gradient(tf.where(y > 0.5, zero / zero, tf.where(y < -0.5, 1.0 / zero, y)))
    return (
        y,
        tf.reduce_max(wrong, 0),
        tf.reduce_any(tf.math.is_nan(wrong)),
        tf.reduce_sum(tf.where(tf.math.is_finite(wrong), wrong, 0.0)),
    )


@step()
def constants_of_numpy_beside_rows(w: Any, x: Any) -> Any:
    return (
        x * np.arange(4.0, dtype="float32"),
        x @ w + np.float32(2),
        np.ones((1, 3), "float32") - x @ w,
        tf.constant(np.eye(4, dtype="float32")) @ w,
    )
