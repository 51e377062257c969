"""Time from a command to the first training step, and from the death of a rank to the end."""
