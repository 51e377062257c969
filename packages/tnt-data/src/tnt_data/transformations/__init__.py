"""The transformations of tf.data: read as a description, and rebuilt on other inputs."""

# One module per topic holds all that is known of its transformations. To support another one, add a
# `DatasetClass` to the `CLASSES` of the module that it belongs to.
