"""Whether a training has the same bits on any number of ranks, with lanes and without."""
