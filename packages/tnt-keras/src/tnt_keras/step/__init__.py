"""One step on all ranks: each computes its part of a batch, and what it changes is made global."""
