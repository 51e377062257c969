"""Rules: which placements each type of operation needs and gives.

There is a module for each class of operations. Importing `registry`, or anything else from this
package, fills the table with all of them.
"""

from tnt_keras.partition.rules import (  # noqa: F401 - each enters its rules into the table
    axes,
    elementwise,
    images,
    indexing,
    shapes,
)
