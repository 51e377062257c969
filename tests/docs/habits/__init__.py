"""What lines that replace those of other tools do: one function for each row of the page.

Each runs on two ranks with the code of its row, and compares with what the line on the left does:
with plain Keras on the samples of all ranks, or with a formula.
"""

from habits import callbacks, collectives, data, files, loops, models
from habits.row import HABITS, check

__all__ = ["HABITS", "callbacks", "check", "collectives", "data", "files", "loops", "models"]
