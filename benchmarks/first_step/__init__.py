"""How long it takes until the first training step has ended, against plain Keras."""
