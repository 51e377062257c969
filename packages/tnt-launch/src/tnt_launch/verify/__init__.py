"""`tarantella verify`: does a script train with the same bits on all numbers of ranks?

It runs the script on each of them, and compares the hashes that rank 0 writes after every step.
"""
