"""Collective communication between the processes of a data-parallel training job.

Start a script n times (`tarantella -n 4 -- script.py`) and every process is a
*rank* that can sum, broadcast and gather numpy arrays with the others::

    import numpy as np
    import tnt_comm

    total = tnt_comm.allreduce(np.arange(3.0) * tnt_comm.get_rank())

`GradientReducer` sums the gradients of a model in the background of
backpropagation; `Gatherer` does the same for sparse rows. All sums are formed
in one fixed order, so results are bitwise reproducible.
"""

from importlib.metadata import version as _version

# The module in C++ imports both, and would not say which one is missing.
import ml_dtypes as _ml_dtypes  # noqa: F401
import numpy as _numpy  # noqa: F401

try:
    from tnt_comm import _core as _core
except ImportError as error:
    if "undefined symbol" in str(error):
        raise ImportError(
            "The Python module of tnt-comm has loaded the library of a different version "
            f"({error}): reinstall tnt-comm."
        ) from None
    if "cannot import name '_core'" in str(error):
        raise ImportError(
            f"tnt-comm ({__path__[0]}) has no compiled module for this Python: it was installed "
            "with another one, or incompletely. Install it with this Python."
        ) from None
    raise

from tnt_comm import failure, timeline, ucx_wheel, whereabouts
from tnt_comm.collectives import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    gather,
    reduce_scatter,
    scatter,
)
from tnt_comm.counters import Counters, counters
from tnt_comm.errors import CommError, CommTimeoutError, MismatchError, PeerLostError
from tnt_comm.fusion_plan import Bucket, FusionPlan, TensorSpec
from tnt_comm.gatherer import Gatherer
from tnt_comm.gpus import describe_devices, gpu_obstacle
from tnt_comm.gradient_reducer import GradientReducer
from tnt_comm.group import Group
from tnt_comm.job import (
    finalize,
    get_local_rank,
    get_local_size,
    get_rank,
    get_size,
    init,
    is_initialized,
)
from tnt_comm.link import Link, fusion_threshold_for, measure_link
from tnt_comm.locations import include_path, library_path
from tnt_comm.shared_array import empty
from tnt_comm.start import join as _join
from tnt_comm.ticket import Ticket
from tnt_comm.wire_effect import WireEffect, measure_wire_effect

__version__ = _version("tnt-comm")

_join.forget_other_job()
ucx_wheel.announce()
failure.tell_of_errors()
whereabouts.tell_until_joined()

__all__ = [
    "Bucket",
    "CommError",
    "CommTimeoutError",
    "Counters",
    "FusionPlan",
    "Gatherer",
    "GradientReducer",
    "Group",
    "Link",
    "MismatchError",
    "PeerLostError",
    "TensorSpec",
    "Ticket",
    "WireEffect",
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "counters",
    "describe_devices",
    "empty",
    "finalize",
    "fusion_threshold_for",
    "gather",
    "get_local_rank",
    "get_local_size",
    "get_rank",
    "get_size",
    "gpu_obstacle",
    "include_path",
    "init",
    "is_initialized",
    "library_path",
    "measure_link",
    "measure_wire_effect",
    "reduce_scatter",
    "scatter",
    "timeline",
]
