"""Runs of a step on some samples, and what they show."""
