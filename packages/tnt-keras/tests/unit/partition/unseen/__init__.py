"""Training scripts that no rule was written for: losses of papers, examples, optimizers."""

from . import densities, detection, transformers, views
from .case import CASES, Case

__all__ = ["CASES", "Case", "densities", "detection", "transformers", "views"]
