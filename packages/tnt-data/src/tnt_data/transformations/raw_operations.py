"""Rebuild a dataset by the same raw operation with the same traced functions, on another input."""

# A copy of the dataset object gets a new input and a new operation. Going through the public
# methods would trace the user's functions again, which may have side effects or make other
# constants. Wrapping the traced functions would be no better: TensorFlow fuses neighbouring
# transformations, for instance `shuffle` and `repeat` where only a function without effect lies
# between, and a fused shuffle has another order.

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.tensorflow_private import InspectedDataset, rebuild_by_operation


def by_operation(
    inspected: InspectedDataset, source: tf.data.Dataset, operation: Any, **arguments: Any
) -> tf.data.Dataset:
    """Copy a dataset with one input, fed by `source` of the same types and shapes. Local."""
    return rebuild_by_operation(inspected.dataset, source, operation, arguments, {})


def by_operation_with_function(
    inspected: InspectedDataset,
    source: tf.data.Dataset,
    operation: Any,
    parameter: str = "f",
    /,
    **arguments: Any,
) -> tf.data.Dataset:
    """Copy a dataset as `by_operation` does, with the one function that it runs. Local."""
    function = inspected.functions[0].function
    arguments = {"other_arguments": function.captured_inputs, parameter: function, **arguments}
    return by_operation(inspected, source, operation, **arguments)
