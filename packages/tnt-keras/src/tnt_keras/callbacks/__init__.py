"""Which callbacks run on which rank, and those that Tarantella adds."""
