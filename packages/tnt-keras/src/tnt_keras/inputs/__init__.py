"""The input that the user gives to `fit`, `evaluate` and `predict`, and this rank's part of it.

A sample comes this way:

1. `arguments` takes the arguments of one input out of those of the call, and refuses those that
   contradict each other, by the user's names.
2. `distribute` finds out of what kind the input is and gives this rank its part (`DistributedInput`
   of `distributed_input`), after `compare_ranks` has seen that all ranks were given the same.
3. Of the kinds, `tf.data` is left to tnt-data, and `arrays` are a dataset of positions.
   `distribute_python` has what Python code makes, in the `python_batches` that all ranks read
   alike. What may be different each time is read by the master rank (`master_reader`).
4. `class_weights` and marks of what ranks compare are mapped over the part. Then Keras reads it,
   and a step of the model receives it.
"""
