"""Reads the steps of pipelines, and repeats them, through what `tensorflow_private` offers."""

from __future__ import annotations

from tnt_data.steps.carrying import batch_like, open_windows, repeat_on_rows, repeat_with_numbers
from tnt_data.steps.changes import Changes
from tnt_data.steps.reading import read_pipeline
from tnt_data.steps.replaying import replay_step

__all__ = [
    "read_pipeline",
    "Changes",
    "replay_step",
    "repeat_with_numbers",
    "repeat_on_rows",
    "open_windows",
    "batch_like",
]
