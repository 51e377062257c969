"""Compare the settings of optimizers, which are no variables and so cannot be sent to ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tnt_keras.collectives.errors import DifferentInputError
from tnt_keras.collectives.messages import allgather_json
from tnt_keras.process.log import logger
from tnt_keras.process.rank import MASTER_RANK, get_rank

_CLASS = "class"
_RATE = "learning_rate"


def require_same_optimizers(optimizers: Iterable[Any]) -> None:
    """Compare the optimizers of ranks before their first step. Collective.

    A learning rate that is a number is a variable: all ranks go on with that of the master rank,
    and there is a warning if others had another one. Schedules, momenta, clipping and the like stay
    what each rank has made them, so that weights would drift apart.

    Args:
        optimizers: Those that the model is known to use, on all ranks in the same order.

    Raises:
        DifferentInputError: On all ranks, if settings differ; names one and two of its values.
    """
    own = [_settings_of(optimizer) for optimizer in optimizers]
    of_ranks = allgather_json("settings of the optimizers", own)
    for rank, others in enumerate(of_ranks):
        for masters, other in zip(of_ranks[MASTER_RANK], others, strict=False):
            for name in sorted(masters.keys() | other.keys(), key=lambda each: each != _CLASS):
                if masters.get(name) != other.get(name):
                    _report(name, masters.get(name), other.get(name), rank)


def _report(name: str, of_master_rank: Any, of_other: Any, rank: int) -> None:
    text = (
        f"Rank {get_rank()}: the {name} of the optimizer is {of_master_rank} on rank {MASTER_RANK} "
        f"and {of_other} on rank {rank}."
    )
    if name == _RATE and all(isinstance(each, float) for each in (of_master_rank, of_other)):
        logger.warning("%s All ranks go on with that of rank %d.", text, MASTER_RANK)
        return
    raise DifferentInputError(f"{text} Every rank must make the same optimizer.")


def _settings_of(optimizer: Any) -> dict[str, Any]:
    """Return what an optimizer says of itself, without names, which count what was made before."""
    try:
        config = optimizer.get_config()
    except NotImplementedError:  # of an optimizer of the user's own
        config = {}
    return {_CLASS: type(optimizer).__name__, **_comparable(config)}


def _comparable(value: Any) -> Any:
    """Return a value as JSON knows it; of other objects only the class, which has no address."""
    if isinstance(value, dict):
        return {str(key): _comparable(each) for key, each in value.items() if key != "name"}
    if isinstance(value, (list, tuple)):
        return [_comparable(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return float(value) if hasattr(value, "__float__") else type(value).__name__
