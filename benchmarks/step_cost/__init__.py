"""CPU time that distributed training adds to the steps of a rank."""
