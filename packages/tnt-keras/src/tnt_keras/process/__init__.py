"""This process among the ranks: number, settings, log and output."""
