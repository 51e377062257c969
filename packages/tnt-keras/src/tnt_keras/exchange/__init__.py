"""Collectives in the graph of a step: sums and gathers, fused, in an order that ranks share."""
