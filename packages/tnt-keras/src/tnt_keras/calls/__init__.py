"""Calls that all ranks make together: their messages, errors, comparisons, objects and files."""
