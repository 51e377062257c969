"""What `tnt.Model` makes of a Keras model: its methods on all ranks, from `fit` to `save`."""
