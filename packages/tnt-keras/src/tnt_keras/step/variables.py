"""Equal weights on all ranks: made so before training, checked while it goes on."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.collectives.messages import broadcast, exchange
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size

# An odd number without pattern (2**31 divided by the golden ratio), so that multiples of it modulo
# 2**31 are far apart and none is hit twice. Seeds must fit into a 32-bit integer with sign.
_SEED_STRIDE = 0x4F1BBCDD
_NUM_SEEDS = 2**31


def replicated_variables(model: keras.Model) -> list[Any]:
    """Returns all variables that must be equal on all ranks. Local.

    These are the model's weights and the variables of the optimizers that it is known to use.

    Args:
        model: A built distributed model.
    """
    optimizers = model._tnt_communication.optimizers
    variables = [*model.weights, *(v for optimizer in optimizers for v in optimizer.variables)]
    return list({id(variable): variable for variable in variables}.values())


def synchronize(model: keras.Model) -> None:
    """Gives all ranks the weights, optimizer state and seeds of the master rank. Collective.

    The states of random seeds are the master's plus a multiple of the rank, so that ranks draw
    different dropout masks for their different samples.

    Args:
        model: A built model.

    Raises:
        ValueError: On all ranks, if the models differ in structure; names the first difference.
    """
    variables = replicated_variables(model)
    seeds = _seed_states(model)
    _check_same_structure([*variables, *seeds])
    for variable in variables:
        variable.assign(_broadcast(np.asarray(variable.value)))
    for seed in seeds:
        state = _broadcast(np.asarray(seed.value)).copy()
        state[0] = (int(state[0]) + get_rank() * _SEED_STRIDE) % _NUM_SEEDS
        seed.assign(state)


def check_replicas(model: keras.Model) -> None:
    """Compares the weights of all ranks bit by bit, through checksums. Collective.

    Args:
        model: A built model.

    Raises:
        RuntimeError: On all ranks, if a variable differs; names the first one and the ranks.
    """
    variables = replicated_variables(model)
    digests = b"".join(_digest(variable) for variable in variables)
    of_ranks = exchange("checksums of weights", digests)
    if all(other == of_ranks[MASTER_RANK] for other in of_ranks):
        return
    for index, variable in enumerate(variables):
        part = slice(16 * index, 16 * (index + 1))
        differing = [r for r, d in enumerate(of_ranks) if d[part] != of_ranks[MASTER_RANK][part]]
        if differing:
            raise RuntimeError(
                f"Rank {get_rank()}: the variable {variable.path!r} is not the same on all ranks: "
                f"ranks {differing} differ from rank {MASTER_RANK}. Training was stopped, since "
                "its results would be wrong. Does code outside of `train_step` change variables, "
                "or do ranks run different code?"
            )


def _digest(variable: Any) -> bytes:
    return hashlib.blake2b(np.asarray(variable.value).tobytes(), digest_size=16).digest()


def _broadcast(value: np.ndarray) -> np.ndarray:
    # As bytes, so that every dtype that a variable can have is allowed.
    raw = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
    received = broadcast("weights of the master rank", raw)
    return np.frombuffer(received.tobytes(), value.dtype).reshape(value.shape)


def _seed_states(model: keras.Model) -> list[Any]:
    """The states of the seed generators of all layers (of `Dropout`, say).

    They are what a model has besides weights and metrics: pairs of a seed and a counter.
    """
    others = [*replicated_variables(model)]
    others += [variable for metric in model.metrics for variable in metric.variables]
    known = {id(variable) for variable in others}
    return [
        variable
        for variable in model.variables
        if id(variable) not in known
        and tuple(variable.shape) == (2,)
        and tf.as_dtype(variable.dtype).is_integer
    ]


def _check_same_structure(variables: list[Any]) -> None:
    own = [[variable.path, list(variable.shape), str(variable.dtype)] for variable in variables]
    of_ranks = [
        json.loads(text) for text in exchange("structure of the model", json.dumps(own).encode())
    ]
    master = of_ranks[MASTER_RANK]
    for rank in range(get_size()):
        other = of_ranks[rank]
        for index in range(max(len(master), len(other))):
            a = master[index] if index < len(master) else None
            b = other[index] if index < len(other) else None
            # Paths may differ, since a process may number its layers differently.
            if a is None or b is None or a[1:] != b[1:]:
                raise ValueError(
                    f"Rank {get_rank()}: the models of the ranks differ. Variable {index} is "
                    f"{_describe(a)} on rank {MASTER_RANK} and {_describe(b)} on rank {rank}. "
                    "Every rank must build the same model."
                )


def _describe(variable: list[Any] | None) -> str:
    if variable is None:
        return "absent"
    path, shape, dtype = variable
    return f"{path!r} of shape {tuple(shape)} and dtype {dtype}"
