"""Describe a pipeline as a tree of transformations in plain data, and draw conclusions."""
