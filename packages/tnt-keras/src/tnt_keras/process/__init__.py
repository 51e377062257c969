"""This process among the ranks: its number, its settings, its log and what it shows."""
