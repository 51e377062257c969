"""Its presence makes the modules of this folder importable for the tests below it."""
