"""Compare before a step's first run what ranks have traced, and the settings that it holds."""

from __future__ import annotations

from typing import Any

from tnt_keras.collectives.errors import DifferentInputError
from tnt_keras.collectives.replicas import compare_texts
from tnt_keras.process.rank import MASTER_RANK, get_rank
from tnt_keras.step.layer_settings import require_same_layers
from tnt_keras.step.optimizer_settings import require_same_optimizers
from tnt_keras.step.owner import StepOwner


def require_same_settings(owner: StepOwner) -> None:
    """Compare the settings of optimizers, layers, losses and metrics, by name. Collective.

    Args:
        owner: Of the steps.

    Raises:
        DifferentInputError: On all ranks, if they differ; names the first and two of its values.
    """
    require_same_optimizers(owner.optimizers)
    if owner.model is not None:
        require_same_layers(owner.model)


def compare_traces(name: str, traced: Any) -> None:
    """Compare what ranks have traced of a step, in which all take part. Collective.

    Names and seeds may differ; types, attributes, edges and constants may not.

    Args:
        name: Of the step.
        traced: As `partition.trace` returns it.

    Raises:
        DifferentInputError: On all ranks, if traces differ; shows the first difference, with the
            user's line.
    """
    difference = compare_texts(f"trace of {name}", traced.description(), missing="nothing more")
    if difference is None:
        return
    raise DifferentInputError(
        f"Rank {get_rank()}: `{name}` is not the same on all ranks: it has "
        f"{difference.of_master_rank} on rank {MASTER_RANK} and {difference.of_rank} on rank "
        f"{difference.rank}. All ranks must trace the same step. Does its Python code ask for the "
        "rank, go through a set, or use numbers of `numpy` or `random`?"
    )
