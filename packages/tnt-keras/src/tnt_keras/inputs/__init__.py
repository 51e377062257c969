"""The input that the user gives to `fit`, `evaluate` and `predict`, and this rank's part of it.

A sample comes this way:

1. `arguments` takes the arguments of one input out of those of the call (`InputArguments`), and
   `check_input` there refuses those that contradict each other, by the user's names.
2. `distribute` finds out of what kind the input is and gives this rank its part (`DistributedInput`
   of `distributed_input`), after `compare_ranks` has seen that all ranks were given the same.
3. Of the kinds, `tf.data` is left to tnt-data, and `arrays` are a dataset of positions.
   `distribute_python` has what Python code makes: `py_dataset` orders the batches of a `PyDataset`
   alike on all ranks, `generator_reader` reads a generator ahead. What may be different each time
   is read by the master rank (`master_reader`), which sends `row_messages`.
4. `distributed_input` applies to the part what each batch needs, such as `class_weights`. Then
   Keras reads it, and a step of the model receives it.
"""
