"""Change objects and classes of Keras; hold all private names of Keras and TensorFlow."""
