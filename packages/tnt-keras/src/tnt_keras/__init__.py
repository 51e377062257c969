"""Synchronous data-parallel training of Keras models: the result of the serial run, sooner.

    import tarantella as tnt

    model = tnt.Model(model)

makes a Keras model train, evaluate and predict on all ranks that the launcher started.
"""

from importlib.metadata import version

try:
    import tensorflow as _tensorflow  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        'tnt_keras needs TensorFlow: pip install "tnt-keras[tensorflow]", '
        'or "tnt-keras[tensorflow-cpu]".'
    ) from None

from tnt_keras import data
from tnt_keras.model.model import Model
from tnt_keras.process.devices import set_up_devices
from tnt_keras.process.environment import settings
from tnt_keras.process.log import set_up_logging
from tnt_keras.process.rank import (
    get_local_rank,
    get_local_size,
    get_master_rank,
    get_rank,
    get_size,
    is_master_rank,
)

__all__ = [
    "Model",
    "data",
    "get_local_rank",
    "get_local_size",
    "get_master_rank",
    "get_rank",
    "get_size",
    "is_master_rank",
]
__version__ = version("tnt-keras")

# Before TensorFlow starts its runtime, hence at import.
set_up_logging(settings())
set_up_devices(settings())
