"""What datasets yield: micro-batches, which rows belong to which rank, specs and fingerprints."""
