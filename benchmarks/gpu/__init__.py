"""What one GPU tells about tensors on GPUs: order, copies, bits, time and lost ranks."""
