"""Collectives: sums and concatenations in a graph, messages between steps, calls of all ranks."""
