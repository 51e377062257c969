"""Rows and sums of the global batch as tensors that can be differentiated.

Backpropagation on rank r starts from the loss L_r that this rank differentiates, and what it gives
is later multiplied by the rank's weight w_r (`Step.loss_weight`) and added up: the total is

    L = sum_r w_r * L_r.

If all ranks use a value G that was made of the rows x_q of all ranks, the gradient that rank q has
to find for its rows is therefore

    u_q = (1 / w_q) * sum_r w_r * (dL_r / dG) * (dG / dx_q),

and 0 where w_q is 0: the usual combination, sum_q w_q * u_q, is then the serial gradient. So
backpropagation exchanges the gradients dL_r / dG, weighted with w_r.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.collectives.channel import Allgather, Allreduce, Channel
from tnt_keras.collectives.checks import require
from tnt_keras.collectives.ops import one
from tnt_keras.keras_hooks.private_tensorflow import registered_gradient
from tnt_keras.step.context import Step

_NUM_SAMPLES, _NUM_ROWS = range(2)


def sums_over_ranks(values: Sequence[tf.Tensor], function: str, step: Step) -> list[tf.Tensor]:
    """Return the sums of tensors over all ranks, in one exchange. Collective.

    Backpropagation exchanges once as well.

    Args:
        values: Tensors of fully known shape, the same on all ranks. A rank without samples
            contributes nothing.
        function: What sums, for messages: "tnt.batch_sum".
        step: The current step.

    Returns:
        One sum for each, of its shape and dtype, bitwise the same on every rank.

    Raises:
        RuntimeError: Inside of a `tf.cond` or `tf.while_loop` of the step.
        ValueError: If a shape is not known.
    """
    name = f"{function} {step.next_batch_operation()}"
    totals = _sums(step, name, [tf.stop_gradient(value) for value in values], step.presence)

    def gradients(*of_sums: tf.Tensor) -> list[tf.Tensor]:
        weight = step.loss_weight()
        of_all = _sums(step, f"gradient of {name}", of_sums, weight)
        return [
            _unweighted(each, weight, value.dtype)
            for each, value in zip(of_all, values, strict=True)
        ]

    return _with_gradients(totals, values, gradients, function, step)


def rows_of_all_ranks(rows: tf.Tensor, function: str, step: Step) -> tf.Tensor:
    """Return the rows of all ranks in the order of the serial batch. Collective.

    Samples are ordered by their index on the rank, then by the rank: sample p of a batch that was
    split as `batch[r::n]` is sample p // n of rank p mod n. Rows of one sample stay together.

    In backpropagation every rank receives the gradients of all ranks for all rows, n times the size
    of the result.

    Args:
        rows: Tensor of shape `(k * samples of this rank, ...)`, with any whole number k that is
            the same on all ranks, as all other dimensions are. A rank without samples contributes
            nothing.
        function: What gathers, for messages: "tnt.gather_batch".
        step: The current step.

    Returns:
        Tensor of shape `(k * samples of the global batch, ...)`, the same on every rank.

    Raises:
        RuntimeError: Inside of a `tf.cond` or `tf.while_loop` of the step.
        ValueError: When the step runs, if the number of rows is no such multiple.
    """
    name = f"{function} {step.next_batch_operation()}"
    num_rows = tf.shape(rows, tf.int64)[0]
    rows_per_sample = num_rows // tf.maximum(step.num_local, 1)
    num_sent = tf.where(step.num_local > 0, num_rows, 0)
    by_rank, of_ranks = _exchange(
        step,
        name,
        [
            Allgather(name, tf.stop_gradient(rows), step.presence),
            Allgather(f"{name}, counts", tf.stack([step.num_local, num_sent])[tf.newaxis], one()),
        ],
    )
    of_ranks = _checked(of_ranks, rows_per_sample, function)
    order = _row_order(of_ranks[:, _NUM_SAMPLES], rows_per_sample)
    ordered = tf.gather(by_rank, order)
    first = tf.reduce_sum(of_ranks[: step.rank, _NUM_ROWS])

    def gradients(of_ordered: tf.Tensor) -> list[tf.Tensor]:
        weight = step.loss_weight()
        weighted = of_ordered * tf.cast(weight, of_ordered.dtype)
        channel = f"gradient of {name}"
        [of_all] = _exchange(step, channel, [Allgather(channel, weighted, step.presence)])
        shape = tf.shape(weighted, tf.int64)
        of_all = tf.reshape(of_all, tf.concat([[-1], shape], 0))
        # A rank without samples has sent none of its rows; its gradient becomes 0 below.
        sent = tf.minimum(first + tf.range(num_rows), shape[0] - 1)
        own = tf.gather(tf.math.invert_permutation(order), sent)
        total = tf.reduce_sum(tf.gather(of_all, own, axis=1), axis=0)
        return [_unweighted(total, weight, rows.dtype)]

    if not rows.dtype.is_floating:
        return ordered
    [ordered_rows] = _with_gradients([ordered], [rows], gradients, function, step)
    return ordered_rows


def _sums(step: Step, name: str, values: Sequence[tf.Tensor], weight: tf.Tensor) -> list[tf.Tensor]:
    summands = [Allreduce(f"{name}, {i}", value, weight) for i, value in enumerate(values)]
    return _exchange(step, name, summands)


def _exchange(step: Step, name: str, collectives: list[Any]) -> list[tf.Tensor]:
    channel = step.batch_channels.setdefault(name, Channel(name))
    return step.exchange(channel, collectives)


def _checked(of_ranks: tf.Tensor, rows_per_sample: tf.Tensor, function: str) -> tf.Tensor:
    """Return the numbers of samples and rows of all ranks when they are found to be right."""
    is_right = of_ranks[:, _NUM_ROWS] == of_ranks[:, _NUM_SAMPLES] * rows_per_sample
    check = require(
        tf.reduce_all(is_right),
        f"`{function}` must be given the same number of rows for each sample on all ranks: "
        "otherwise it is not known which rows belong to which sample, and they cannot be put in "
        "the order of the global batch.",
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(of_ranks)


def _row_order(num_samples: tf.Tensor, rows_per_sample: tf.Tensor) -> tf.Tensor:
    """Return the places of the batch's rows in the concatenation of all ranks' rows.

    Args:
        num_samples: int64 tensor of shape `(ranks,)`.
        rows_per_sample: int64 scalar.
    """
    size = tf.size(num_samples, tf.int64)
    ranks = tf.repeat(tf.range(size), num_samples)
    places = tf.range(tf.reduce_sum(num_samples))
    indices = places - tf.gather(tf.cumsum(num_samples, exclusive=True), ranks)
    samples = tf.cast(tf.argsort(indices * size + ranks), tf.int64)
    rows = samples[:, tf.newaxis] * rows_per_sample + tf.range(rows_per_sample)
    return tf.reshape(rows, [-1])


def _with_gradients(
    results: Sequence[tf.Tensor],
    values: Sequence[tf.Tensor],
    gradients: Callable[..., list[tf.Tensor]],
    function: str,
    step: Step,
) -> list[tf.Tensor]:
    """Return `results`, whose first derivatives are given by a function; there are no second ones.

    Args:
        results: Tensors that were computed of the values, in whatever way.
        values: What they depend on.
        gradients: Called in backpropagation with the gradients of the results; returns those of
            the values.
        function: As above.
        step: As above.
    """

    def refuse(*_: tf.Tensor) -> list[tf.Tensor]:
        raise NotImplementedError(
            f"`{function}` has no second derivatives on several ranks: the weight that each "
            "rank's gradient has inside of another loss, such as a gradient penalty, cannot be "
            f"known. Take the inner gradient of values that do not depend on `{function}`."
        )

    def gradients_once(*of_results: tf.Tensor) -> list[tf.Tensor]:
        dense = [_as_dense(each, result) for each, result in zip(of_results, results, strict=True)]
        return _linked(gradients(*dense), dense, refuse, step)

    return _linked(results, values, gradients_once, step)


def _linked(
    results: Sequence[tf.Tensor],
    values: Sequence[tf.Tensor],
    gradients: Callable[..., list[tf.Tensor]],
    step: Step,
) -> list[tf.Tensor]:
    """Return `results` as a function of `values` whose gradients a function gives."""

    @tf.custom_gradient
    def identity(*tensors: tf.Tensor) -> Any:
        def gradient(*of_results: Any) -> list[Any]:
            return [*[None] * len(results), *gradients(*of_results)]

        return [tf.identity(tensor) for tensor in tensors[: len(results)]], gradient

    # Only the given gradients lead on from here: communication has none.
    linked = list(identity(*[tf.stop_gradient(result) for result in results], *values))
    registered = registered_gradient(linked[0])
    if registered is not None:
        step.gradient_functions.append(registered)
    return linked


def _as_dense(gradient: Any, of: tf.Tensor) -> tf.Tensor:
    """Return the gradient of a tensor as a tensor that can be summed over ranks."""
    if isinstance(gradient, tf.IndexedSlices):
        num_rows = tf.shape(of, tf.int64)[0]
        gradient = tf.math.unsorted_segment_sum(
            _as_single(gradient.values), gradient.indices, num_rows
        )
    dense = _as_single(gradient)
    dense.set_shape(of.shape)
    return dense


def _as_single(tensor: tf.Tensor) -> tf.Tensor:
    """Return a half-precision tensor in single precision, since weights make it small or large."""
    return tf.cast(tensor, tf.float32) if tensor.dtype.size < 4 else tf.convert_to_tensor(tensor)


def _unweighted(total: tf.Tensor, weight: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Divide by this rank's weight; give 0 where it is 0, even if the total is not finite."""
    inverse = tf.cast(tf.math.divide_no_nan(tf.ones([], tf.float64), weight), total.dtype)
    return tf.cast(tf.where(weight > 0, total * inverse, tf.zeros_like(total)), dtype)
