"""Which callbacks run on which rank, and those that keep ranks together or report on them."""
