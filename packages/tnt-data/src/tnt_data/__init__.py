"""Split batched `tf.data` pipelines between ranks: every step is exactly one serial batch."""

try:
    import tensorflow as _tensorflow  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        'tnt_data needs TensorFlow: pip install "tnt-data[tensorflow]", '
        'or "tnt-data[tensorflow-cpu]".'
    ) from None

from tnt_data.elements.fingerprints import fingerprint_of
from tnt_data.elements.micro_batch import MicroBatch
from tnt_data.elements.row_split import RowSplit, micro_batch_size
from tnt_data.errors import BatchSizeError, DataError, NotBatchedError, UnsupportedElementError
from tnt_data.functions.python_code import draws_random_numbers
from tnt_data.pipeline import (
    Pipeline,
    describe_order,
    distribute,
    explain,
    global_batch_size,
    is_batched,
)
from tnt_data.rank_dataset.reading import without_autotuning, without_prefetch
from tnt_data.rank_dataset.slice_rows import check_rows, slice_batches
from tnt_data.transformations.read import warn_of_unknown_release

__all__ = [
    "Pipeline",
    "distribute",
    "explain",
    "slice_batches",
    "global_batch_size",
    "micro_batch_size",
    "is_batched",
    "check_rows",
    "describe_order",
    "fingerprint_of",
    "draws_random_numbers",
    "without_autotuning",
    "without_prefetch",
    "warn_of_unknown_release",
    "MicroBatch",
    "RowSplit",
    "DataError",
    "BatchSizeError",
    "NotBatchedError",
    "UnsupportedElementError",
]
