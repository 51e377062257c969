"""`from_generator`, which TensorFlow makes of a `flat_map` over a single element."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.description.transformation import Kind, Transformation
from tnt_data.elements.specs import element_bytes, first_dimension
from tnt_data.functions.contents import contents_of
from tnt_data.functions.python_code import draws_random_numbers, place_of
from tnt_data.tensorflow_private import InspectedDataset, generator_of
from tnt_data.transformations.catalogue import class_of


def is_from_generator(inspected: InspectedDataset) -> bool:
    """Return whether a dataset was made by `from_generator`. Local."""
    if _name_of(inspected) != "flat_map":
        return False
    input_names = [_name_of(InspectedDataset(one)) for one in inspected.inputs]
    return input_names == ["from_tensors"] and "generator" in contents_of(inspected.functions)


def _name_of(inspected: InspectedDataset) -> str:
    known = class_of(inspected)
    return known.name if known else ""


def read_generator(dataset: tf.data.Dataset) -> Transformation:
    """Describe what `from_generator` has made, as one transformation. Local."""
    generator = generator_of(dataset)
    draws = generator is not None and draws_random_numbers(generator)
    return Transformation(
        Kind.GENERATOR,
        "from_generator",
        f"from_generator({getattr(generator, '__name__', '')})",
        dataset=dataset,
        function_contents=frozenset({"generator", "random"} if draws else {"generator"}),
        place=place_of(generator),
        element_bytes=element_bytes(dataset.element_spec),
        first_dimension=first_dimension(dataset.element_spec),
    )
