"""What Tarantella costs at the start of a training: the proof of its step."""
