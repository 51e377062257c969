"""How much of the communication of a training step is hidden behind its computation."""
