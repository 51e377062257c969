"""Layers of Keras in the census: in training with derivatives, and in inference."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import keras
import tensorflow as tf
from census_record import Census, is_subclass, options, public
from census_tracing import Example, example, traced_types
from census_values import (
    IMAGES,
    INTS,
    LABELS,
    MATRICES,
    SIDE,
    SIGNALS,
    STRINGS,
    VECTORS,
    VOLUMES,
    named_arguments,
    required,
    rows,
    whole,
)

Change = Callable[[Any], None]
BASES = ("Layer", "Wrapper", "InputLayer")
DETECTIONS = {"boxes": rows(2, 4), "labels": rows(2)}
ANNOTATED_IMAGES = {
    "images": IMAGES,
    "bounding_boxes": DETECTIONS,
    "segmentation_masks": rows(8, 8, 1),
}


def layer(name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(keras.layers, name)(*args, **kwargs)


# What layers are made of, beside what the names of their arguments say. Functions make layers.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "Bidirectional": {"layer": lambda: layer("LSTM", 3)},
    "CategoryEncoding": {"num_tokens": 5},
    "Discretization": {"bin_boundaries": (0.1, 0.5)},
    "Dot": {"axes": 1},
    "EinsumDense": {"equation": "...x,xy->...y", "output_shape": (3,), "bias_axes": "y"},
    "GroupNormalization": {"groups": 1},
    "GroupedQueryAttention": {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2},
    "IntegerLookup": {"vocabulary": (3, 5, 7)},
    "Lambda": {"function": lambda: lambda x: 2.0 * x},
    "MaxNumBoundingBoxes": {"max_number": 3, "bounding_box_format": "xyxy"},
    "MelSpectrogram": {
        "fft_length": 16,
        "max_freq": 32,
        "num_mel_bins": 4,
        "sampling_rate": 64,
        "sequence_stride": 4,
    },
    "MultiHeadAttention": {"num_heads": 2, "key_dim": 3},
    "Normalization": {"mean": 0.5, "variance": 2.0},
    "Permute": {"dims": (2, 1)},
    "Pipeline": {"layers": lambda: [layer("Rescaling", 0.1), layer("RandomFlip")]},
    "RNN": {"cell": lambda: [layer("LSTMCell", 3), layer("GRUCell", 2)]},
    "RandomPosterization": {"factor": 4},
    "SpectralNormalization": {"layer": lambda: layer("Dense", 3)},
    "STFTSpectrogram": {"frame_length": 8, "frame_step": 4, "fft_length": 8},
    "StackedRNNCells": {"cells": lambda: [layer("GRUCell", 3), layer("GRUCell", 2)]},
    "StringLookup": {"vocabulary": ("a", "b")},
    "TextVectorization": {"vocabulary": ("a", "b")},
    "TimeDistributed": {"layer": lambda: layer("Dense", 3)},
}

# What layers are called with that are not meant for any usual input.
CALLS: dict[str, list[Example]] = {
    "CategoryEncoding": [example(INTS), example(INTS, count_weights=VECTORS)],
    "CutMix": [example({"images": IMAGES, "labels": VECTORS})],
    "Embedding": [example(INTS), example(LABELS)],
    "GRUCell": [example(VECTORS, [rows(3)])],
    "HashedCrossing": [example((LABELS, LABELS)), example((STRINGS, STRINGS))],
    "Hashing": [example(INTS), example(STRINGS)],
    "IntegerLookup": [example(INTS)],
    "LSTMCell": [example(VECTORS, [rows(3), rows(3)])],
    "MaxNumBoundingBoxes": [example({"images": IMAGES, "bounding_boxes": DETECTIONS})],
    "MelSpectrogram": [example(SIGNALS)],
    "MixUp": [example({"images": IMAGES, "labels": VECTORS})],
    "ReversibleEmbedding": [example(INTS), example(VECTORS, reverse=True)],
    "STFTSpectrogram": [example(rows(32, 1))],
    "SimpleRNNCell": [example(VECTORS, [rows(3)])],
    "StackedRNNCells": [example(VECTORS, [rows(3), rows(2)])],
    "StringLookup": [example(STRINGS)],
    "TextVectorization": [example(STRINGS), example(rows(1, dtype=tf.string))],
}

USUAL_INPUTS: tuple[Any, ...] = (
    MATRICES,
    VECTORS,
    IMAGES,
    VOLUMES,
    rows(3, 4, 4, 4, 2),
    [MATRICES, MATRICES],
)
IMAGE_INPUTS: tuple[Any, ...] = (IMAGES, ANNOTATED_IMAGES)

# Values of optional arguments, for whatever layer has an argument of that name: all first values
# together, then all second ones; one at a time if a layer cannot take them together.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "activation": ("softmax",),
    "activity_regularizer": ("l2",),
    "antialias": (True,),
    "axis": (0, 1),
    "bounding_box_format": ("xyxy", "rel_xywh"),
    "crop_to_aspect_ratio": (True,),
    "depth_multiplier": (2,),
    "dropout": (0.3,),
    "dtype": ("mixed_float16",),
    "go_backwards": (True,),
    "interpolation": ("nearest", "bicubic", "lanczos3"),
    "invert": (True,),
    "kernel_regularizer": ("L1L2", "OrthogonalRegularizer"),
    "mask_zero": (True,),
    "merge_mode": ("sum", "ave"),
    "mode": ("horizontal", "vertical", "magnitude", "psd", "real"),
    "normalize": (True,),
    "padding": ("same", "causal"),
    "per_channel": (True,),
    "recurrent_dropout": (0.3,),
    "reset_after": (False,),
    "return_sequences": (True,),
    "return_state": (True,),
    "score_mode": ("concat",),
    "sliding_window": (2,),
    "strides": (2,),
    "use_gate": (True,),
    "use_scale": (True,),
    "zero_output_for_mask": (True,),
}
ALONE: dict[str, tuple[Any, ...]] = {
    "data_format": ("channels_first",),
    "dilation_rate": (2,),
    "fill_mode": ("nearest", "wrap"),
    "output_mode": ("one_hot", "multi_hot", "count", "tf_idf", "int"),
    "output_sequence_length": (5,),
    "pad_to_aspect_ratio": (True,),
    "ragged": (True,),
    "renorm": (True,),
    "sparse": (True,),
    "split": ("character",),
    "synchronized": (True,),
    "unroll": (True,),
}
# What is called on a layer that is built.
CHANGES: dict[str, Change] = {
    "lora": lambda made: made.enable_lora(2),
    **{
        mode: functools.partial(lambda mode, made: made.quantize(mode), mode)
        for mode in ("int4", "int8", "float8")
    },
}


def add_layers(census: Census) -> None:
    for _, cls in public(keras.layers, is_subclass(keras.layers.Layer)):
        if cls.__name__ not in BASES:
            add_layer(census, f"keras.layers.{cls.__name__}", cls)


def add_layer(census: Census, name: str, cls: Any) -> None:
    def trace(call: Example, training: bool = True, **more: Any) -> Callable[[], set[str]]:
        return lambda: layer_types(made(cls, more), call, training)

    fitting: list[Example] = []
    for call in usual_calls(cls):
        if len(fitting) < 3 and census.add(name, [trace(call)]):
            fitting.append(call)
    census.add(name, [trace(call) for call in masked_calls(cls)])
    census.add(name, [trace(call, training=False) for call in fitting[:2]])
    for call in fitting[:1]:
        for together in combined(options(cls.__init__, OPTIONS)):
            if not census.add(name, [trace(call, **together)]):
                census.add(name, [trace(call, **{key: together[key]}) for key in together])
        census.add(name, [trace(call, **choice) for choice in options(cls.__init__, ALONE)])
        if "stateful" in inspect.signature(cls.__init__).parameters:
            census.add(name, [trace(example(whole(2, SIDE, SIDE)), stateful=True)])
        add_on_gpu(census, name, cls, trace(call))
        add_changed(census, name, cls, call)


def made(cls: Any, more: dict[str, Any]) -> Any:
    arguments = named_arguments(cls.__init__) | ARGUMENTS.get(cls.__name__, {}) | more
    return cls(
        **{
            name: value() if inspect.isfunction(value) else value
            for name, value in arguments.items()
        }
    )


def usual_calls(cls: Any) -> list[Example]:
    names = required(cls.call)
    inputs = IMAGE_INPUTS if "data" in names else USUAL_INPUTS
    return CALLS.get(cls.__name__) or [Example((value,) * len(names), {}) for value in inputs]


def masked_calls(cls: Any) -> Iterator[Example]:
    accepted = inspect.signature(cls.call).parameters
    if "mask" in accepted:
        mask = rows(SIDE, dtype=tf.bool)
        yield example(MATRICES, mask=mask)
        yield example([MATRICES, MATRICES], mask=[mask, mask])
    if "attention_mask" in accepted:
        yield example(MATRICES, MATRICES, attention_mask=rows(SIDE, SIDE, dtype=tf.bool))
        yield example(MATRICES, MATRICES, use_causal_mask=True)
    elif "use_causal_mask" in accepted:
        yield example([MATRICES, MATRICES], use_causal_mask=True)


def combined(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first value of each argument, the second of each that has one, and so on."""
    turns: list[dict[str, Any]] = []
    for choice in choices:
        [name] = choice
        turn = next((one for one in turns if name not in one), None)
        if turn is None:
            turns.append(dict(choice))
        else:
            turn.update(choice)
    return turns


def add_on_gpu(census: Census, name: str, cls: Any, trace: Callable[[], set[str]]) -> None:
    """Trace recurrent layers as on a machine with a GPU, where they are one operation."""
    if "use_cudnn" in inspect.signature(cls.__init__).parameters:
        gpu = mock.Mock(device_type="GPU")
        with mock.patch.object(tf.config, "list_logical_devices", return_value=[gpu]):
            census.add(name, [trace])


def add_changed(census: Census, name: str, cls: Any, call: Example) -> None:
    """Trace what can be quantised or adapted in that state too."""

    def trace(change: Change) -> set[str]:
        one = made(cls, {})
        layer_types(one, call, training=True)
        change(one)
        return layer_types(one, call, training=True)

    if hasattr(cls, "enable_lora") or cls.quantize is not keras.layers.Layer.quantize:
        census.add(name, [functools.partial(trace, change) for change in CHANGES.values()])


def layer_types(layer: Any, call: Example, training: bool) -> set[str]:
    accepts = "training" in inspect.signature(layer.call).parameters
    kwargs = {"training": training} if accepts else {}

    def called(*args: Any, **more: Any) -> Any:
        return layer(*args, **more, **kwargs), layer.losses

    def weights() -> list[tf.Variable]:
        return [weight.value for weight in layer.trainable_variables]

    return traced_types(called, call, weights, gradients=training)
