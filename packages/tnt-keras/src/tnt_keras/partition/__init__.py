"""Any traced step, partitioned along the rows of the batch: the graph that one rank runs.

This is the idea of GSPMD (Xu et al. 2021, arXiv 2105.04663), for TensorFlow graphs and the batch
axis alone. The modules, from the bottom up: `value` says what is known of a value while a graph is
built. `rules` say which placements each type of operation needs and gives. `traced`, `graph`,
`analysis` and `control_flow` walk the traced graph and choose placements, which makes a `plan`.
`reshard`, `emitter` and `schedule` build the graph of a rank, and note `across_ranks` what others
make alike; `clusters` and `compiled_graph` put what lies between exchanges into functions for XLA,
if wanted. Nothing here knows ranks or Keras:
the object that `build` is given makes the exchanges between processes.
"""

from tnt_keras.partition.analysis import PartitionError
from tnt_keras.partition.build import Input, PartitionedStep, build, build_without_batch
from tnt_keras.partition.explain import Exchanged, Explanation
from tnt_keras.partition.graph import local_region, users_line
from tnt_keras.partition.operations import is_python
from tnt_keras.partition.random_ops import draws_without_seed, is_draw
from tnt_keras.partition.reshard import Exchange, Replicas, Request
from tnt_keras.partition.traced import TracedStep, trace
from tnt_keras.partition.value import REPLICATED, Sharded

__all__ = [
    "REPLICATED",
    "Exchange",
    "Exchanged",
    "Explanation",
    "Input",
    "Replicas",
    "PartitionError",
    "PartitionedStep",
    "Request",
    "Sharded",
    "TracedStep",
    "build",
    "build_without_batch",
    "draws_without_seed",
    "is_draw",
    "is_python",
    "local_region",
    "trace",
    "users_line",
]
