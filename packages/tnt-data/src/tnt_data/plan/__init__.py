"""Decide how a pipeline is split between ranks, and explain it. No TensorFlow."""
