"""From a plan to an exit code: start the ranks, watch them, end them together."""
