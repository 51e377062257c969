"""`tnt.Barrier`, and what takes the place of names of the original Tarantella and of others.

It needs no TensorFlow.
"""

from __future__ import annotations

import tnt_comm
from tnt_keras.calls.current_call import user_line

LEFT_OUT = {
    "Allgatherv": "tnt.TensorAllgatherer, or tnt.comm.allgather",
    "Allreduce": "tnt.TensorAllreducer, or tnt.comm.allreduce",
    "Broadcast": "tnt.TensorBroadcaster, or tnt.comm.broadcast",
    "PipelineCommunicator": "no pipelining; models fit into the memory of a rank",
    "ReductionOp": 'the names "sum", "prod", "min", "max", "and" and "or" of tnt.comm.allreduce',
    "SynchCommunicator": "tnt.Model, or tnt.comm.GradientReducer for other programs",
    "collectives": "tnt.comm, or tnt.TensorAllreducer and its like",
    "global_tnt_config": "the variables TNT_* of the environment",
    "logger": 'logging.getLogger("tnt_keras")',
    "optimizers": "the optimizers of Keras, which tnt.Model distributes when it is compiled",
    "tnt_config": "the variables TNT_* of the environment",
    "keras.layers": "the layers of Keras; those of the original were for pipelining",
    "keras.losses": "the losses of Keras; those of the original were for pipelining",
    "keras.metrics": "the metrics of Keras; those of the original were for pipelining",
    "models.model_from_yaml": "tnt.models.model_from_json, since Keras no longer supports YAML",
}
"""What to use instead, by name below `tnt`."""

_PLAIN_OPTIMIZER = (
    "use the optimizer as it is, with tnt.Model, or tnt.function for a loop of your own"
)
OF_OTHERS = {
    "DistributedGradientTape": "use tnt.function instead of tf.function",
    "DistributedOptimizer": _PLAIN_OPTIMIZER,
    "ProbeError": "it is no longer needed, since every step gives the serial result",
    "broadcast_variables": "it is not needed, since the first step sends the master's",
    "distribute_optimizer": _PLAIN_OPTIMIZER,
}
"""What to use instead of names of Horovod, and of one of our own that is no more."""


def no_attribute(module: str, name: str) -> AttributeError:
    """Return the error of a module that has no such name. Pure."""
    message = f"module {module!r} has no attribute {name!r}"
    below = module.partition(".")[2]
    instead = LEFT_OUT.get(f"{below}.{name}" if below else name)
    if instead is not None:
        message += f": this name of the original Tarantella is left out, use {instead}"
    elif not below and name in OF_OTHERS:
        message += f": {OF_OTHERS[name]}"
    return AttributeError(message)


class Barrier:
    """Wait until all members of a group have reached the same point.

        tnt.Barrier().execute()

    Args:
        group: Whom to wait for; all ranks by default.

    Raises:
        TypeError: If `group` is something else.
    """

    def __init__(self, group: tnt_comm.Group | None = None) -> None:
        if group is not None and not isinstance(group, tnt_comm.Group):
            raise TypeError(f"`group` must be a `tnt.Group`. Received: {group!r}.")
        self._group = tnt_comm.Group() if group is None else group

    def execute(self) -> None:
        """Wait until all members have called it. Collective.

        Raises:
            tnt_comm.CommError: If a member is lost, late, or in another call.
        """
        self._group.barrier(label="Barrier", caller=user_line())
