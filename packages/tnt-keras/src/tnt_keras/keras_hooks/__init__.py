"""Change objects and classes of Keras, and hold the only module that knows its private names."""
