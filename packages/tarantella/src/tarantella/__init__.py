"""Synchronous data-parallel training of Keras models: `import tarantella as tnt`.

The names of this package are those of tnt-keras, with tnt-comm as `tnt.comm`. A script that is
started without the launcher is a world of one rank.
"""

from importlib.metadata import version as _version

import tnt_comm as comm
from tarantella._versions import versions
from tnt_keras import (
    Model,
    data,
    get_local_rank,
    get_local_size,
    get_master_rank,
    get_rank,
    get_size,
    is_master_rank,
)

__version__ = _version("tarantella")

__all__ = [
    "Model",
    "get_rank",
    "get_size",
    "get_local_rank",
    "get_local_size",
    "get_master_rank",
    "is_master_rank",
    "comm",
    "data",
    "versions",
    "__version__",
]
