"""Communication between ranks, inside of TensorFlow's graphs and outside of steps."""
