"""From what the user gives to `fit`, `evaluate` and `predict` to this rank's part of each batch."""
