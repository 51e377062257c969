"""The input that the user gives to `fit`, `evaluate` and `predict`, and this rank's part of it."""
