"""What ranks do together: sums and concatenations in a graph, messages between steps, calls."""
