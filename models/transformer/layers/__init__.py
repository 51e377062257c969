"""The parts of the network, from subwords to logits.

Shapes in comments and docstrings: `batch`, `length` of a sentence, `hidden` entries of the vector
of a token, `heads` of an attention, each of `width` = hidden / heads entries. A *bias* is added to
the scores of an attention and takes part in no gradient: 0 where a token may look, -10^9 where it
may not.
"""
