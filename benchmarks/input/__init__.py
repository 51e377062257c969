"""CPU time and memory that input takes on one rank."""
