"""The comparison of a serial step with that of the ranks, and what follows from it."""
