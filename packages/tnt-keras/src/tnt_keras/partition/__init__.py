"""Partition: the graph of a step becomes that of one rank, which works on its rows."""
