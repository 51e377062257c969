"""The functions that transformations call: contents of their graphs and code, changed copies."""
