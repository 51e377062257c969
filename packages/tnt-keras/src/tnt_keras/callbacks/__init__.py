"""Choose which callbacks run on which rank, and add those that keep ranks in lockstep or report."""
