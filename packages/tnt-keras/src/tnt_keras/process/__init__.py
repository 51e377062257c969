"""This process among the ranks: its rank, settings, log and output."""
