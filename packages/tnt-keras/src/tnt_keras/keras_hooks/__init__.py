"""How Keras' own objects are changed, and the one place that knows Keras' private names."""
