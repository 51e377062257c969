"""The Transformer of Vaswani et al. (https://arxiv.org/abs/1706.03762), for translation."""
