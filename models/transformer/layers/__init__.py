"""The parts of the network, from subwords to logits.

Shapes in comments and docstrings: `batch`, `length` of a sentence, `hidden` entries of the vector
of a token, `heads` of an attention, each of `width` = hidden / heads entries. `is_visible` tells
where tokens may look, in booleans that broadcast to (batch, heads, queries, what is looked at).
"""
