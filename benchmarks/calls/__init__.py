"""What evaluate, predict and saving cost on ranks, and how much memory a rank needs."""
