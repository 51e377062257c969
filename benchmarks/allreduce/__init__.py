"""Time of an allreduce: tnt-comm, other libraries, and the limits of the machine."""
