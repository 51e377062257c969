"""What the code of a step assigns to variables: checked, or skipped while a model is built."""
