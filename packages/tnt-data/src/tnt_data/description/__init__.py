"""What is known of a pipeline: a tree of transformations, as plain data, and what follows."""
