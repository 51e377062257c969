"""What a training step takes on many hosts: a replay of tnt-comm's own allreduces."""
