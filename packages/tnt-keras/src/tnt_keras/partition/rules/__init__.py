"""Rules: which placements a type of operation needs and gives, a module for each class of operations."""

from tnt_keras.partition.rules import (  # noqa: F401 - each enters its rules into the table
    along_axis,
    contraction,
    elementwise,
    images,
    indexing,
    matrices,
    quantization,
    reductions,
    shapes,
    slicing,
    text,
)
