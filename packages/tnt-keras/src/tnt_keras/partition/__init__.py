"""Any traced step, cut along the rows of the batch: the graph that one rank runs.

The idea is that of GSPMD (Xu et al. 2021, arXiv 2105.04663), on TensorFlow graphs and for the axis
of the batch alone. Modules, from the bottom up: `placement` and `value` say what is known of a value
while a graph is built; `rules` say, for each type of operation, which placements it needs and gives;
`traced`, `analysis` and `control_flow` walk the traced graph and choose; `reshard`, `emission` and
`schedule` build the graph of a rank. Nothing here knows ranks or Keras: exchanges between processes
are made by the object that `partition` is given.
"""

from tnt_keras.partition.analysis import PartitionError
from tnt_keras.partition.build import Input, PartitionedStep, build, build_without_batch
from tnt_keras.partition.lanes import Lanes
from tnt_keras.partition.placement import REPLICATED, Rows
from tnt_keras.partition.requests import Exchange, Request
from tnt_keras.partition.traced import TracedStep, local_region, trace

__all__ = [
    "REPLICATED",
    "Exchange",
    "Input",
    "Lanes",
    "PartitionError",
    "PartitionedStep",
    "Request",
    "Rows",
    "TracedStep",
    "build",
    "build_without_batch",
    "local_region",
    "trace",
]
