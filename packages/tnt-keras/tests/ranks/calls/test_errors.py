"""Mistakes are named on every rank, before anything is computed."""

from __future__ import annotations

from typing import Any

import mistakes
import pytest
from rank_pools import ENVIRONMENT

from tnt_comm.testing import observe_ranks


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
        ("checkpoint of the master", "ValueError", ["Rank 1", "`ModelCheckpoint`", "All ranks"]),
        (
            "other schedule",
            "ValueError",
            ["learning_rate of the optimizer", "0.125", "0.25", "rank 1"],
        ),
        (
            "other clipping",
            "ValueError",
            ["the clipnorm of the optimizer is 1.0 on rank 0 and 2.0"],
        ),
        ("other optimizer", "ValueError", ["the class of the optimizer is SGD on rank 0 and Adam"]),
        ("different models", "ValueError", ["head", "(10, 3)", "(10, 4)", "rank 1"]),
        (
            "other activation",
            "ValueError",
            ["Dense, with activation='relu', and rank 1 has", "activation='tanh'"],
        ),
        ("other policy", "ValueError", ["dtype='float32', and rank 1 has", "'mixed_bfloat16'"]),
        (
            "other parameter of the loss",
            "ValueError",
            ["loss.reduction='sum'", "loss.reduction='mean'"],
        ),
        ("other execution", "ValueError", ["`steps_per_execution`", "1 on rank 0 and 2 on rank 1"]),
        ("eager steps of one rank", "ValueError", ["`run_eagerly`", "False on rank 0 and True"]),
        ("validation of one rank", "ValueError", ["`validation_data`", "'given' on rank 1"]),
        ("unknown argument of one rank", "TypeError", ["nonsense"]),
        (
            "no callback on one rank",
            "TypeError",
            ["`callbacks`", "keras.callbacks.Callback", "'x'"],
        ),
        ("compiled anew by one rank", "ValueError", ["since compile()", "[] on rank 1"]),
        ("other function of the user", "ValueError", ["is not the same on all ranks", "rank 1"]),
        ("other number of samples to predict", "ValueError", ["23 samples", "20 samples"]),
        ("custom loop", "RuntimeError", ["train_step"]),
        ("different data", "ValueError", ["the dataset", "of 5 elements", "of 4 elements"]),
        (
            "other steps per epoch",
            "ValueError",
            ["mistakes.py:", "`steps_per_epoch`", "2 on rank 0"],
        ),
        (
            "metric of one rank",
            "ValueError",
            ["the models of the ranks differ", "accuracy"],
        ),
        ("other batch size", "ValueError", ["`batch_size`", "2 on rank 0 and 3 on rank 1"]),
        ("other steps", "ValueError", ["evaluate: ", "`steps`", "2 on rank 0"]),
        ("other batches to predict", "ValueError", ["predict: ", "`batch_size`"]),
        (
            "learning rate of one rank",
            "RuntimeError",
            ["mistakes.py:", "learning_rate", "ranks [1]"],
        ),
        ("drifting rank", "RuntimeError", ["bias", "ranks [1]", "rank 0"]),
    ],
)
def test_mistake_is_named_on_every_rank(
    mistake: str, kind: str, words: list[str], pool_of: Any
) -> None:
    for actual_kind, text in pool_of(2).run(mistakes.error_of, mistake):
        assert actual_kind == kind, text
        for word in words:
            assert word in text


def test_batches_of_different_sizes_are_noticed(preloaded: Any) -> None:
    reports = observe_ranks(
        mistakes.error_in_world_of_its_own, 2, env=ENVIRONMENT, preloaded=preloaded
    )
    # A rank whose own numbers fit by chance learns it from the other one.
    results = [report.value for report in reports]
    assert all(kind in ("ValueError", "PeerLostError") for kind, _ in results), results
    assert any("batches of different sizes" in text for _, text in results)
