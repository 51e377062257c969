"""Functions of TensorFlow that users call in their own steps, in the census.

Each is tried with a few usual inputs; what needs other arguments is in a table, as far as a step is
likely to call it. Functions that fit neither are left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import tensorflow as tf
from census_record import Census, is_call, public
from census_tracing import Example, example, traced_types
from census_values import (
    BOOLS,
    COMPOSITES,
    FLOATS,
    IMAGES,
    INTEGERS,
    INTS,
    LABELS,
    MATRICES,
    MATRIX,
    NUMBERS,
    OTHERS,
    RAGGED,
    RAGGED_STRINGS,
    SIDE,
    SIGNALS,
    SPARSE,
    STRINGS,
    VECTOR,
    VECTORS,
    VOLUMES,
    guesses,
    rows,
    whole,
)

MODULES: tuple[ModuleType, ...] = (
    tf,
    tf.bitwise,
    tf.debugging,
    tf.image,
    tf.linalg,
    tf.math,
    tf.nn,
    tf.ragged,
    tf.random,
    tf.sets,
    tf.signal,
    tf.sparse,
    tf.strings,
)
COMPOSITE_MODULES = ("tf.ragged.", "tf.sets.", "tf.sparse.", "tf.strings.")
# These change TensorFlow itself or are no part of a step.
LEFT_OUT = (
    "check_pinned",
    "disable_",
    "enable_",
    "guarantee_const",
    "import_graph_def",
    "init_scope",
    "load_",
    "no_gradient",
    "register_",
    "set_global",
    "set_log",
    "set_seed",
)

SEED = (1, 2)
SCORES = whole(5)
BOXES = whole(5, 4)
FILTERS = whole(3, 3, 3, 2)
TABLE = whole(10, SIDE)
TRUTH = whole(dtype=tf.bool)
COUNT = whole(dtype=tf.int32)
CLASSES = rows(1, dtype=tf.int64)
IDS = tf.SparseTensorSpec((None, 3), tf.int64)
WORDS = rows(2, dtype=tf.string)
SPECTRA = rows(6, 5, dtype=tf.complex64)


def doubled(x: Any) -> Any:
    return 2.0 * x


# By the name in its module: calls of what no guess fits, or fits badly.
CALLS: dict[str, list[Example]] = {
    "Assert": [example(TRUTH, [VECTORS])],
    "accumulate_n": [example([VECTORS, VECTORS])],
    "add": [example(VECTORS, VECTORS), example(SPARSE, SPARSE)],
    "add_n": [example([VECTORS, VECTORS])],
    "adjust_contrast": [example(IMAGES, 0.5)],
    "adjust_jpeg_quality": [example(whole(8, 8, 3), 50)],
    "all_candidate_sampler": [example(CLASSES, 1, 5, True)],
    "assert_all_finite": [example(VECTORS, "")],
    "assert_rank": [example(VECTORS, 2)],
    "assert_scalar": [example(whole())],
    "assert_shapes": [example([(VECTORS, ("N", SIDE))])],
    "batch_normalization": [example(VECTORS, VECTOR, VECTOR, VECTOR, VECTOR, 0.001)],
    "batch_to_space": [example(MATRICES, (2,), ((0, 0),))],
    "bias_add": [example(MATRICES, VECTOR)],
    "bitcast": [example(VECTORS, tf.int32)],
    "boolean_mask": [example(VECTORS, rows(dtype=tf.bool)), example(VECTORS, BOOLS)],
    "case": [example([(TRUTH, lambda: 1.0)], default=lambda: 2.0)],
    "categorical": [example(VECTORS, 2)],
    "central_crop": [example(IMAGES, 0.5)],
    "clip_by_global_norm": [example([VECTORS, NUMBERS], 1.0)],
    "combined_non_max_suppression": [example(rows(5, 1, 4), rows(5, 2), 2, 3)],
    "concat": [
        example([VECTORS, VECTORS], 0),
        example([RAGGED, RAGGED], 0),
        example(0, [SPARSE, SPARSE]),
    ],
    "cond": [example(TRUTH, lambda: 1.0, lambda: 2.0)],
    "conv1d": [example(MATRICES, whole(3, SIDE, 2), 1, "SAME")],
    "conv2d": [example(IMAGES, FILTERS, 1, "SAME")],
    "conv2d_transpose": [example(whole(2, 4, 4, 3), whole(3, 3, 2, 3), (2, 8, 8, 2), 2)],
    "conv3d": [example(VOLUMES, whole(3, 3, 3, 2, 2), (1, 1, 1, 1, 1), "SAME")],
    "convolution": [example(IMAGES, FILTERS)],
    "crop_and_resize": [example(IMAGES, BOXES, whole(5, dtype=tf.int32), (4, 4))],
    "crop_to_bounding_box": [example(IMAGES, 1, 1, 4, 4)],
    "cross_hashed": [example([WORDS, WORDS]), example([RAGGED_STRINGS, RAGGED_STRINGS])],
    "ctc_beam_search_decoder": [example(rows(None, 5), whole(6, dtype=tf.int32))],
    "ctc_greedy_decoder": [example(rows(2, 5), whole(2, dtype=tf.int32))],
    "ctc_loss": [example(INTS, rows(6, 5), LABELS, LABELS, logits_time_major=False)],
    "decode_image": [example(whole(dtype=tf.string))],
    "decode_jpeg": [example(whole(dtype=tf.string))],
    "decode_png": [example(whole(dtype=tf.string))],
    "depth_to_space": [example(rows(4, 4, 4), 2)],
    "depthwise_conv2d": [example(IMAGES, whole(3, 3, 3, 1), (1, 1, 1, 1), "SAME")],
    "dilation2d": [example(IMAGES, whole(3, 3, 3), (1,) * 4, "SAME", "NHWC", (1,) * 4)],
    "dynamic_partition": [example(VECTORS, LABELS, 2)],
    "dynamic_stitch": [example([LABELS, LABELS], [VECTORS, VECTORS])],
    "edit_distance": [example(IDS, IDS)],
    "einsum": [
        example("bij,bjk->bik", MATRICES, MATRICES),
        example("bij,jk->bik", MATRICES, MATRIX),
    ],
    "embedding_lookup": [example(TABLE, INTS), example(TABLE, INTS, max_norm=1.0)],
    "embedding_lookup_sparse": [
        example(TABLE, IDS, None, combiner=combiner) for combiner in ("mean", "sum", "sqrtn")
    ],
    "encode_jpeg": [example(whole(8, 8, 3, dtype=tf.uint8))],
    "erosion2d": [example(IMAGES, whole(3, 3, 3), (1,) * 4, "SAME", "NHWC", (1,) * 4)],
    "expand_dims": [example(VECTORS, 1), example(SPARSE, 1)],
    "extract_glimpse": [example(IMAGES, (4, 4), rows(2))],
    "extract_patches": [example(IMAGES, (1, 3, 3, 1), (1,) * 4, (1,) * 4, "SAME")],
    "eye": [example(3), example(3, batch_shape=(2,))],
    "fill": [example((2, SIDE), whole())],
    "fill_empty_rows": [example(SPARSE, 0.0)],
    "fixed_unigram_candidate_sampler": [example(CLASSES, 1, 5, True, 9, unigrams=(1.0,) * 9)],
    "fold_in": [example(SEED, COUNT)],
    "foldl": [example(tf.add, MATRIX)],
    "foldr": [example(tf.add, MATRIX)],
    "format": [example("{}", VECTORS)],
    "fractional_avg_pool": [example(whole(2, 8, 8, 3), (1.0, 1.4, 1.4, 1.0))],
    "fractional_max_pool": [example(whole(2, 8, 8, 3), (1.0, 1.4, 1.4, 1.0))],
    "frame": [example(SIGNALS, 8, 4)],
    "fused_batch_norm": [example(IMAGES, whole(3), whole(3))],
    "gather": [example(TABLE, INTS), example(VECTORS, LABELS), example(RAGGED, LABELS)],
    "gather_nd": [example(VECTORS, rows(1, dtype=tf.int32))],
    "gradients": [],
    "grayscale_to_rgb": [example(rows(8, 8, 1))],
    "histogram_fixed_width": [example(NUMBERS, (0.0, 1.0))],
    "identity_n": [example([VECTORS, NUMBERS])],
    "in_top_k": [example(LABELS, VECTORS, 2)],
    "inverse_stft": [example(SPECTRA, 8, 4)],
    "irfftnd": [example(SPECTRA, (6, 8), (1, 2))],
    "join": [example([STRINGS, STRINGS])],
    "learned_unigram_candidate_sampler": [example(CLASSES, 1, 5, True, 9)],
    "log_uniform_candidate_sampler": [example(CLASSES, 1, 5, True, 9)],
    "lu_matrix_inverse": [example(MATRIX, whole(SIDE, dtype=tf.int32))],
    "lu_solve": [example(MATRIX, whole(SIDE, dtype=tf.int32), MATRIX)],
    "map_flat_values": [example(tf.square, RAGGED)],
    "map_fn": [
        example(doubled, MATRICES),
        example(tf.reduce_sum, RAGGED, fn_output_signature="float32"),
    ],
    "map_values": [example(tf.square, SPARSE)],
    "mask": [example(tf.IndexedSlicesSpec((None, SIDE)), LABELS)],
    "maximum": [example(VECTORS, VECTORS), example(SPARSE, SPARSE)],
    "mdct": [example(SIGNALS, 8)],
    "minimum": [example(VECTORS, VECTORS), example(SPARSE, SPARSE)],
    "nce_loss": [example(TABLE, whole(10), CLASSES, VECTORS, 3, 10)],
    "non_max_suppression": [example(BOXES, SCORES, 2)],
    "non_max_suppression_padded": [example(BOXES, SCORES, 2)],
    "non_max_suppression_with_scores": [example(BOXES, SCORES, 2)],
    "numpy_function": [example(doubled, [VECTORS], tf.float32)],
    "one_hot": [example(LABELS, 5)],
    "overlap_and_add": [example(rows(3, 8), 4)],
    "pad": [
        example(MATRICES, ((0, 0), (1, 1), (1, 0)), mode)
        for mode in ("CONSTANT", "REFLECT", "SYMMETRIC")
    ],
    "pad_to_bounding_box": [example(IMAGES, 1, 1, 10, 10)],
    "parallel_stack": [example([VECTOR, VECTOR])],
    "polyval": [example([VECTORS, VECTORS], VECTORS)],
    "pool": [example(IMAGES, (2, 2), "MAX"), example(IMAGES, (2, 2), "AVG", padding="SAME")],
    "print": [example(VECTORS)],
    "py_function": [example(doubled, [VECTORS], tf.float32)],
    "random_brightness": [example(IMAGES, 0.2)],
    "random_contrast": [example(IMAGES, 0.2, 0.5)],
    "random_hue": [example(IMAGES, 0.2)],
    "random_saturation": [example(IMAGES, 0.2, 0.5)],
    "range": [example(COUNT)],
    "reduce_max": [example(MATRICES), example(MATRICES, 0), example(RAGGED, 1), example(SPARSE, 1)],
    "reduce_sum": [example(MATRICES), example(MATRICES, 0), example(RAGGED, 1), example(SPARSE, 1)],
    "reduce_mean": [example(MATRICES), example(MATRICES, 0), example(RAGGED, 1)],
    "regex_full_match": [example(STRINGS, "a"), example(STRINGS, whole(dtype=tf.string))],
    "regex_replace": [example(STRINGS, whole(dtype=tf.string), "b")],
    "repeat": [example(VECTORS, 2, 0), example(VECTORS, LABELS, 0)],
    "reshape": [example(MATRICES, (-1, 16)), example(SPARSE, (-1, 2))],
    "resize": [
        example(IMAGES, (5, 6), method)
        for method in (
            "bilinear",
            "nearest",
            "bicubic",
            "area",
            "lanczos3",
            "gaussian",
            "mitchellcubic",
        )
    ],
    "retain": [example(SPARSE, rows(dtype=tf.bool))],
    "reverse": [example(MATRICES, (1,)), example(RAGGED, (1,))],
    "reverse_sequence": [example(MATRICES, LABELS, 1)],
    "roll": [example(MATRICES, 1, 1)],
    "safe_embedding_lookup_sparse": [example(TABLE, IDS)],
    "sample_distorted_bounding_box": [example((8, 8, 3), whole(1, 2, 4))],
    "sampled_softmax_loss": [example(TABLE, whole(10), CLASSES, VECTORS, 3, 10)],
    "scan": [example(tf.add, MATRIX)],
    "scatter_nd": [example(rows(1, dtype=tf.int32), VECTORS, (10, SIDE))],
    "segment_mean": [example(VECTORS, LABELS), example(TABLE, LABELS, LABELS)],
    "segment_sqrt_n": [example(TABLE, LABELS, LABELS)],
    "segment_sum": [example(VECTORS, LABELS), example(TABLE, LABELS, LABELS)],
    "separable_conv2d": [
        example(IMAGES, whole(3, 3, 3, 1), whole(1, 1, 3, 2), (1, 1, 1, 1), "SAME")
    ],
    "set_diag": [example(MATRICES, VECTORS)],
    "shape_n": [example([VECTORS, NUMBERS])],
    "sigmoid_cross_entropy_with_logits": [example(VECTORS, VECTORS)],
    "slice": [example(MATRICES, (0, 1, 1), (-1, 2, 2)), example(SPARSE, (0, 0), (2, 2))],
    "sobol_sample": [example(2, 5)],
    "softmax": [example(VECTORS), example(SPARSE)],
    "space_to_batch": [example(MATRICES, (2,), ((0, 0),))],
    "sparse_dense_matmul": [example(SPARSE, MATRIX)],
    "sparse_softmax_cross_entropy_with_logits": [example(LABELS, VECTORS)],
    "split": [example(MATRICES, 2, 1), example(MATRICES, (1, 3), 1), example(STRINGS)],
    "ssim": [example(rows(16, 16, 3), rows(16, 16, 3), 1.0)],
    "ssim_multiscale": [],
    "stack": [example([VECTORS, VECTORS]), example([RAGGED, RAGGED])],
    "stack_dynamic_partitions": [example(VECTORS, LABELS, 2)],
    "stateless_categorical": [example(VECTORS, 2, SEED)],
    "stft": [example(SIGNALS, 8, 4)],
    "substr": [example(STRINGS, 1, 2)],
    "switch_case": [example(COUNT, [lambda: 1.0, lambda: 2.0])],
    "tensor_scatter_nd_update": [example(TABLE, rows(1, dtype=tf.int32), VECTORS)],
    "tensor_scatter_nd_add": [example(TABLE, rows(1, dtype=tf.int32), VECTORS)],
    "tensordot": [example(MATRICES, MATRIX, 1), example(VECTORS, VECTORS, ((0,), (0,)))],
    "to_hash_bucket_strong": [example(STRINGS, 5, (1, 2))],
    "to_indicator": [example(IDS, 5)],
    "transpose": [example(MATRICES, (0, 2, 1)), example(SPARSE)],
    "tuple": [example([VECTORS, NUMBERS])],
    "uniform_candidate_sampler": [example(CLASSES, 1, 5, True, 9)],
    "unstack": [example(MATRICES, axis=1)],
    "vectorized_map": [example(doubled, MATRICES)],
    "where": [example(BOOLS, VECTORS, VECTORS), example(BOOLS)],
    "while_loop": [
        example(lambda x: tf.reduce_sum(x) < 10.0, lambda x: (2.0 * x,), (VECTORS,)),
    ],
}


@functools.cache
def tensorflow_census() -> Census:
    census = Census()
    for name, function in functions():
        add_function(census, name, function)
    return census


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions of the modules, each once, by its name in the first module that has it."""
    seen = set()
    for module in MODULES:
        prefix = "tf." + module.__name__.removeprefix("tensorflow").rpartition(".")[2]
        for name, function in public(module, is_call):
            if id(function) not in seen and not name.startswith(LEFT_OUT):
                seen.add(id(function))
                yield f"{prefix.rstrip('.')}.{name}", function


def add_function(census: Census, name: str, function: Callable[..., Any]) -> None:
    def trace(one: Example) -> Callable[[], set[str]]:
        return functools.partial(traced_types, function, one)

    calls = CALLS.get(name.rpartition(".")[2])
    if calls is not None and (census.add(name, map(trace, calls)) or not calls):
        return
    inputs: list[tuple[Any, ...]] = [FLOATS, INTEGERS]
    inputs.append(COMPOSITES if name.startswith(COMPOSITE_MODULES) else OTHERS)
    for values in inputs:
        if values is not OTHERS or name not in census.types:
            census.add(name, map(trace, guesses(function, values)), limit=1)
