"""The two ids that every vocabulary leaves to the model."""

PAD = 0
"""Fills sentences up to the length of their batch; never predicted."""

EOS = 1
"""Ends a sentence."""
