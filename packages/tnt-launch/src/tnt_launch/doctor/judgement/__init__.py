"""From facts to findings, by pure functions."""
