"""What lanes cost a training step."""
