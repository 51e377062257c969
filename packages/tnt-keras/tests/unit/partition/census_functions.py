"""Functions of Keras: `keras.ops`, `keras.random`, activations, in the census."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from census_record import Census, Trace, is_call, options, public
from census_tracing import Example, example, traced_types
from census_values import (
    BOOLS,
    COMPLEX,
    FLOATS,
    IMAGES,
    INTEGERS,
    INTS,
    LABELS,
    MATRICES,
    MATRIX,
    NUMBERS,
    SIDE,
    SIGNALS,
    VECTOR,
    VECTORS,
    VOLUMES,
    guesses,
    rows,
    whole,
)

OPS = keras.ops
SPECTRA = (rows(6, 5), rows(6, 5))
COUNT = whole(dtype=tf.int32)
TABLE = whole(10, SIDE)
FILTERS = whole(3, 3, 3, 2)
DEPTH_FILTERS = whole(3, 3, 3, 1)


def doubled(x: Any) -> Any:
    return 2.0 * x


# Calls of functions whose arguments need more than what their names say.
OF_FUNCTIONS: dict[str, list[Example]] = {
    "affine_transform": [
        example(IMAGES, rows(8)),
        example(IMAGES, rows(8), interpolation="nearest", fill_mode="reflect"),
    ],
    "append": [example(VECTORS, VECTORS, axis=0), example(VECTORS, VECTORS)],
    "arange": [example(0, COUNT), example(0.0, 5.0)],
    "array_split": [example(MATRICES, 3, axis=1)],
    "associative_scan": [example(OPS.add, MATRICES, axis=1), example(OPS.add, MATRIX)],
    "average": [example(MATRICES, axis=0, weights=NUMBERS), example(MATRICES)],
    "average_pool": [example(IMAGES, 2), example(IMAGES, 2, padding="same"), example(MATRICES, 2)],
    "batch_normalization": [
        example(VECTORS, VECTOR, VECTOR, -1, VECTOR, VECTOR),
        example(MATRICES, VECTOR, VECTOR, 1),
    ],
    "beta": [example((2, SIDE), 0.5, 0.5), example((2, SIDE), VECTOR, VECTOR)],
    "bincount": [example(INTS, minlength=5), example(INTS, weights=VECTORS, minlength=5)],
    "binomial": [example((2, SIDE), 3.0, 0.5)],
    "blackman": [example(5)],
    "broadcast_to": [example(MATRIX, (3, SIDE, SIDE))],
    "categorical": [example(VECTORS, 2)],
    "concatenate": [example([VECTORS, VECTORS]), example([VECTORS, VECTORS], axis=1)],
    "cond": [example(whole(dtype=tf.bool), lambda: 1.0, lambda: 2.0)],
    "conv": [
        example(IMAGES, FILTERS),
        example(IMAGES, FILTERS, padding="same", dilation_rate=2),
        example(MATRICES, whole(3, SIDE, 2)),
        example(VOLUMES, whole(3, 3, 3, 2, 2)),
    ],
    "conv_transpose": [
        example(IMAGES, whole(3, 3, 2, 3), 2),
        example(MATRICES, whole(3, 2, SIDE)),
        example(VOLUMES, whole(3, 3, 3, 2, 2)),
    ],
    "correlate": [example(VECTOR, VECTOR), example(NUMBERS, VECTOR, mode="same")],
    "crop_images": [
        example(IMAGES, top_cropping=1, left_cropping=1, target_height=4, target_width=4)
    ],
    "ctc_decode": [
        example(MATRICES, LABELS),
        example(MATRICES, LABELS, strategy="beam_search", beam_width=2),
    ],
    "ctc_loss": [example(INTS, rows(6, 5), LABELS, LABELS)],
    "depthwise_conv": [
        example(IMAGES, DEPTH_FILTERS),
        example(MATRICES, whole(3, SIDE, 1), padding="same"),
    ],
    "depth_to_space": [example(rows(4, 4, 4), 2)],
    "digitize": [example(VECTORS, (0.1, 0.5))],
    "dot_product_attention": [
        example(rows(5, 2, 3), rows(6, 2, 3), rows(6, 2, 3)),
        example(rows(5, 2, 3), rows(5, 2, 3), rows(5, 2, 3), is_causal=True),
        example(rows(5, 2, 3), rows(6, 2, 3), rows(6, 2, 3), mask=rows(2, 5, 6, dtype=tf.bool)),
    ],
    "dropout": [example(VECTORS, 0.5), example(VECTORS, 0.5, noise_shape=(None, 1))],
    "dsplit": [example(rows(2, 2, 4), 2)],
    "dstack": [example([VECTORS, VECTORS])],
    "einsum": [
        example("bij,bjk->bik", MATRICES, MATRICES),
        example("bij,jk->bik", MATRICES, MATRIX),
        example("bi,bj->ij", VECTORS, VECTORS),
        example("bii->b", MATRICES),
    ],
    "elastic_transform": [example(IMAGES)],
    "fft": [example((MATRICES, MATRICES))],
    "fft2": [example((MATRICES, MATRICES))],
    "fold": [example(rows(12, 49), output_size=8, kernel_size=2)],
    "fori_loop": [
        example(0, 3, lambda i, x: 2.0 * x, VECTORS),
        example(0, COUNT, lambda i, x: x * x, VECTORS),
    ],
    "gamma": [example((2, SIDE), 0.5), example((2, SIDE), VECTOR)],
    "gcd": [example(whole(2, SIDE, dtype=tf.int32), whole(2, SIDE, dtype=tf.int32))],
    "get_item": [
        example(MATRICES, 0),
        example(MATRICES, (slice(None), slice(0, 2))),
        example(MATRICES, LABELS),
    ],
    "hamming": [example(5)],
    "hanning": [example(5)],
    "histogram": [example(NUMBERS)],
    "hsplit": [example(MATRICES, 2)],
    "hstack": [example([VECTORS, VECTORS])],
    "ifft2": [example((MATRICES, MATRICES))],
    "in_top_k": [example(LABELS, VECTORS, 2)],
    "irfft": [example(SPECTRA)],
    "istft": [example(SPECTRA, 8, 4, 8)],
    "jvp": [example(OPS.sin, (VECTORS,), (VECTORS,))],
    "kaiser": [example(5, 0.5)],
    "lcm": [example(whole(2, SIDE, dtype=tf.int32), whole(2, SIDE, dtype=tf.int32))],
    "lstsq": [example(MATRIX, VECTOR)],
    "lu_factor": [example(MATRIX)],
    "map": [example(doubled, MATRICES)],
    "map_coordinates": [example(whole(8, 8), whole(2, 5), 1)],
    "max_pool": [example(IMAGES, 2), example(MATRICES, 2), example(VOLUMES, 2)],
    "meshgrid": [example(NUMBERS, NUMBERS)],
    "moments": [
        example(VECTORS, 0),
        example(IMAGES, (0, 1, 2), keepdims=True),
        example(rows(SIDE, dtype=tf.float16), (0,)),
    ],
    "moveaxis": [example(MATRICES, 1, 2)],
    "multi_hot": [example(INTS, 5), example(INTS, 5, sparse=True)],
    "normal": [example((2, SIDE))],
    "one_hot": [example(LABELS, 5), example(LABELS, 5, sparse=True)],
    "pad": [
        example(MATRICES, ((0, 0), (1, 1), (1, 0))),
        example(MATRICES, ((0, 0), (1, 1), (1, 0)), mode="reflect"),
        example(MATRICES, ((0, 0), (1, 1), (1, 0)), mode="symmetric"),
    ],
    "pad_images": [example(IMAGES, 1, 1, target_height=10, target_width=10)],
    "percentile": [
        example(MATRICES, 50.0),
        example(MATRICES, 50.0, axis=0),
        example(MATRICES, 50.0, axis=-1),
    ],
    "perspective_transform": [example(IMAGES, rows(4, 2), rows(4, 2))],
    "quantile": [example(MATRICES, 0.5), example(MATRICES, 0.5, axis=0, method="nearest")],
    "randint": [example((2, SIDE), 0, 10)],
    "rearrange": [example(MATRICES, "b i j -> b (i j)")],
    "repeat": [
        example(VECTORS, 2, axis=0),
        example(VECTORS, 2),
        example(VECTORS, LABELS, axis=0),
    ],
    "reshape": [example(MATRICES, (-1, 16)), example(MATRICES, (-1,))],
    "scan": [example(lambda carry, x: (carry + x, carry), VECTOR, MATRIX)],
    "scatter": [example(rows(1, dtype=tf.int32), VECTORS, (10, SIDE))],
    "scatter_update": [
        example(TABLE, rows(1, dtype=tf.int32), VECTORS, **option)
        for option in ({}, {"reduction": "add"}, {"reduction": "max"})
    ],
    "searchsorted": [
        example(VECTOR, whole(5)),
        example(VECTOR, NUMBERS),
        example(VECTOR, NUMBERS, side="right"),
    ],
    "select": [example([BOOLS, BOOLS], [VECTORS, VECTORS])],
    "separable_conv": [example(IMAGES, DEPTH_FILTERS, whole(1, 1, 3, 2))],
    "shuffle": [example(VECTORS), example(MATRICES, axis=1)],
    "slice": [example(MATRICES, (0, 1, 1), (2, 2, 2))],
    "slice_update": [example(TABLE, (0, 0), MATRIX)],
    "solve": [example(MATRICES, MATRICES), example(MATRIX, MATRIX)],
    "solve_triangular": [example(MATRICES, MATRICES), example(MATRICES, MATRICES, lower=True)],
    "sparse_categorical_crossentropy": [
        example(LABELS, VECTORS),
        example(LABELS, VECTORS, from_logits=True),
    ],
    "split": [example(MATRICES, 2, axis=1), example(MATRICES, (1, 3), axis=1)],
    "stack": [example([VECTORS, VECTORS]), example([VECTORS, VECTORS], axis=1)],
    "stft": [example(SIGNALS, 8, 4, 8)],
    "switch": [example(COUNT, [doubled, OPS.square], VECTORS)],
    "take": [
        example(TABLE, INTS, axis=0),
        example(MATRICES, LABELS),
        example(MATRICES, (0, 2), axis=1),
        example(VECTORS, LABELS, axis=0),
    ],
    "take_along_axis": [example(VECTORS, INTS, axis=1), example(VECTORS, INTS, axis=0)],
    "tensordot": [example(MATRICES, MATRIX, 1), example(VECTORS, VECTORS, ((0,), (0,)))],
    "tile": [example(VECTORS, (1, 2)), example(VECTORS, (2, 1))],
    "transpose": [example(MATRICES), example(MATRICES, (0, 2, 1))],
    "truncated_normal": [example((2, SIDE))],
    "unfold": [example(whole(2, 3, 8, 8), 2)],
    "uniform": [example((2, SIDE))],
    "unique": [example(NUMBERS), example(NUMBERS, return_inverse=True, return_counts=True)],
    "unravel_index": [example(LABELS, (2, 5))],
    "unstack": [example(MATRICES, axis=1)],
    "vectorize": [example(doubled)],
    "vectorized_map": [example(doubled, MATRICES)],
    "vsplit": [example(whole(4, SIDE), 2)],
    "vstack": [example([VECTORS, VECTORS])],
    "where": [example(BOOLS, VECTORS, VECTORS), example(BOOLS)],
    "while_loop": [
        example(lambda x: OPS.sum(x) < 10.0, lambda x: (2.0 * x,), (VECTORS,)),
        example(lambda x: True, lambda x: (2.0 * x,), (VECTORS,), maximum_iterations=3),
    ],
}

# Values of optional arguments, each given alone to whatever has an argument of that name.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "axis": (0, -1),
    "data_format": ("channels_first",),
    "from_logits": (True,),
    "keepdims": (True,),
}


def add_functions(census: Census) -> None:
    for module in ("ops", "random", "activations"):
        for name, function in public(getattr(keras, module), is_call):
            add_function(census, f"keras.{module}.{name}", function, OF_FUNCTIONS.get(name, []))


def add_function(
    census: Census, name: str, function: Callable[..., Any], examples: list[Example]
) -> None:
    def trace(one: Example) -> Trace:
        return functools.partial(traced_types, function, one)

    if census.add(name, map(trace, examples)):
        return
    fitting = fitting_guesses(census, name, function, FLOATS, limit=2)
    fitting += fitting_guesses(census, name, function, INTEGERS, limit=1)
    fitting = fitting or fitting_guesses(census, name, function, (BOOLS, COMPLEX), limit=1)
    for one in fitting[:1]:
        choices = [one.with_arguments(**option) for option in options(function, OPTIONS)]
        census.add(name, map(trace, choices))


def fitting_guesses(
    census: Census,
    name: str,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    limit: int,
) -> list[Example]:
    """Add the first guesses that can be traced; what they are."""
    fitting: list[Example] = []
    for one in guesses(function, inputs):
        if len(fitting) < limit and census.add(
            name, [functools.partial(traced_types, function, one)]
        ):
            fitting.append(one)
    return fitting
