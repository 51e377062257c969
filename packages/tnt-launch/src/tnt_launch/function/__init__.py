"""Run a function on the ranks of a job, from a notebook or a script.

Three kinds of process take part: the caller, a launcher of its own, and the ranks, which the
launcher starts as it starts those of a script. The function and what it returns travel through
files in a folder that only their owner can read.
"""
