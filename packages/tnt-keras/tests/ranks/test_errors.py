"""Mistakes are named on every rank, before anything is computed."""

from __future__ import annotations

from typing import Any

import behaviours
import pytest


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        ("not compiled", "ValueError", ["compile()", "fit()"]),
        ("targets with dataset", "ValueError", ["`y`", "Dataset"]),
        ("batch size with dataset", "ValueError", ["`batch_size`", "global batch size"]),
        ("unbatched", "NotBatchedError", ["micro_batch_size"]),
        ("contradicting micro-batch", "BatchSizeError", ["5"]),
        ("generator", "TypeError", ["from_generator"]),
        ("not a model", "TypeError", ["keras.Model"]),
        ("unreduced loss", "ValueError", ["reduction=None", "sum_over_batch_size"]),
        ("backup and restore", "ValueError", ["BackupAndRestore", "ModelCheckpoint"]),
        ("different models", "ValueError", ["head", "(10, 3)", "(10, 4)", "rank 1"]),
        ("custom loop", "RuntimeError", ["train_step"]),
        ("drifting rank", "RuntimeError", ["bias", "ranks [1]", "rank 0"]),
    ],
)
def test_mistake_is_named_on_every_rank(
    mistake: str, kind: str, words: list[str], pool_of: Any
) -> None:
    for actual_kind, text in pool_of(2).run(behaviours.error_of, mistake):
        assert actual_kind == kind, text
        for word in words:
            assert word in text
