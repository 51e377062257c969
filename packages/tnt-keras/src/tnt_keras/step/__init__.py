"""One step on all ranks: each computes its part of a batch; gradients and state become global."""
