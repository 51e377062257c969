"""What the reference trainers have in common: ranks, flags, checkpoints, clocks, pictures."""
