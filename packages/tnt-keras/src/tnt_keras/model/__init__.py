"""`tnt.Model`: the methods of a Keras model on all ranks, from `fit` to `save`."""
