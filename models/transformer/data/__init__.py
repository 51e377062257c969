"""Pairs of sentences as batches of ids.

folder.py           tells what a data folder holds, and loads it: start here
parallel_text.py    two texts, line by line
wmt14.py            WMT14 English-German of tensorflow-datasets
records.py          the TFRecords of tensor2tensor and of the Model Garden
synthetic.py        random ids
sentence_pairs.py   encoded pairs in memory
batching.py         length filter, order, batches in tokens
"""
