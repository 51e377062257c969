"""How fast models train on several ranks, against as many independent processes."""
