"""The default seed of shuffles, the same on all ranks, so that they draw the same order."""

SEED = 42
"""For shuffles without a seed, and for the order of arrays and `PyDataset`s in the first `fit`."""
