"""What a logger's package does in a `fit` by itself needs no other rank."""

from __future__ import annotations

import pathlib
from typing import Any

import loggers_of_packages

OF_THE_SCRIPT = {"of_the_script_1.keras", "of_the_script_2.keras"}
OF_A_LOGGER = {"epoch_0.keras", "epoch_1.keras", "last.weights.h5"}


def names_in(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


def test_a_logger_of_the_master_saves_without_the_other_ranks(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "rank_0").mkdir()
    of_ranks = pool_of(2).run(loggers_of_packages.autolog_on, [0], str(tmp_path))
    (losses, [told], _), (expected, nothing, _) = of_ranks
    assert losses == expected
    assert len(losses["val_loss"]) == 2
    assert names_in(tmp_path) == OF_THE_SCRIPT
    assert names_in(tmp_path / "rank_0") == OF_A_LOGGER
    assert told.startswith(
        "Rank 0: `predict` needs all ranks, but mlflow, which calls it, runs only"
    )
    assert nothing == []
    assert not any("logs every `fit`" in line for _, _, warnings in of_ranks for line in warnings)


def test_a_logger_on_all_ranks_is_told_of_once(pool_of: Any, tmp_path: pathlib.Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank_{rank}").mkdir()
    of_ranks = pool_of(2).run(loggers_of_packages.autolog_on, [0, 1], str(tmp_path))
    [warning], none = (
        [line for line in warnings if "logs every `fit`" in line] for _, _, warnings in of_ranks
    )
    assert warning.startswith("fit: mlflow logs every `fit` on 2 ranks")
    assert "`if tnt.is_master_rank(): ...`" in warning
    assert none == []
    for rank in (0, 1):
        assert names_in(tmp_path / f"rank_{rank}") == OF_A_LOGGER
