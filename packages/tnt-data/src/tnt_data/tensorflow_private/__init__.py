"""The only place that touches undocumented parts of TensorFlow: the classes behind steps.

The modules with private imports are loaded when a known release is in use, not before: on an
unknown one even the import might fail.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tnt_data.pipeline import Kind, Step
from tnt_data.shapes import looks_batched
from tnt_data.tensorflow_private.changes import Changes
from tnt_data.tensorflow_private.version import is_known_version

__all__ = [
    "is_known_version",
    "read_pipeline",
    "Changes",
    "replay_step",
    "repeat_with_numbers",
    "repeat_on_rows",
    "open_windows",
    "batch_like",
]


def read_pipeline(dataset: tf.data.Dataset) -> Step:
    """Describes a dataset and everything that feeds it. Local.

    With an unknown release of TensorFlow, and inside a `tf.function`, where values cannot be read,
    the whole pipeline is one step of kind `OPAQUE`.
    """
    if is_known_version() and tf.executing_eagerly():
        step: Step = _load("reading").read_known_pipeline(dataset)
        return step
    batched = looks_batched(dataset.element_spec)
    return Step(Kind.OPAQUE, "dataset", "the dataset", handle=dataset, looks_batched=batched)


def replay_step(step: Any, inputs: Sequence[tf.data.Dataset], changes: Changes) -> tf.data.Dataset:
    """A dataset like `step`, fed by `inputs`, always in deterministic order. Local.

    Args:
        step: The dataset to repeat, one whose description says `can_be_rebuilt`.
        inputs: As many as `step` has. Where the step runs functions, with the same types and
            shapes.
        changes: Seed and file name to use instead.
    """
    return _load("replaying").REPLAYS[type(step).__name__](step, inputs, changes)


def repeat_with_numbers(
    step: Any, branch: Sequence[tuple[Any, int]], source: tf.data.Dataset, changes: Changes
) -> tf.data.Dataset:
    """A step like `step` on elements `(numbers, element)`; the numbers stay as they are. Local.

    Args:
        step: The dataset to repeat, one that was planned to be moved.
        branch: Zips between the step and the carried element, outermost first, each with the
            number of the input that the step feeds.
        source: Yields `(numbers, element)`.
        changes: As for `replay_step`.
    """
    return _load("carrying").repeat_with_numbers(step, branch, source, changes)


def repeat_on_rows(step: Any, source: tf.data.Dataset) -> tf.data.Dataset:
    """A row-wise map like `step` on the data of micro-batches, which have fewer rows. Local."""
    return _load("carrying").repeat_on_rows(step, source)


def open_windows(source: tf.data.Dataset) -> tf.data.Dataset:
    """From `(numbers, window)` to `(numbers, element)` for all elements of the windows. Local."""
    return _load("carrying").open_windows(source)


def batch_like(step: Any, source: tf.data.Dataset, num_rows: int) -> tf.data.Dataset:
    """Joins `(numbers, sample)` like a `batch` or `padded_batch` step, in its own size. Local."""
    return _load("carrying").batch_like(step, source, num_rows)


def _load(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")
