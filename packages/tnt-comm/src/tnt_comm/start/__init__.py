"""Ranks that a scheduler or an MPI has started, without the launcher: who they are, how they meet.

The first call that needs rank or size makes the variables `TNT_*` that the launcher would have set;
all else reads these. Below `join`: the channels by which ranks find and trust each other, the
rendezvous, and `place`, which says what an environment means.
"""
