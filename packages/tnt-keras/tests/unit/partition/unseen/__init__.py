"""Training scripts that no rule was written for: losses of papers, examples, optimizers."""

from . import densities, detection, games, pictures, sequences, tables, transformers, updates, views
from .case import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "densities",
    "detection",
    "games",
    "pictures",
    "sequences",
    "tables",
    "transformers",
    "updates",
    "views",
]
