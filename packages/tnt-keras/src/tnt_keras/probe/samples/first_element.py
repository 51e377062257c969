"""Look at the next element of Keras' iterator without taking it away from the step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import tensorflow as tf

from tnt_keras.probe.samples.first_samples import has_one_sample


class FirstElement:
    """A model's train, test or predict function that can show its next element before it runs.

    Keras makes one such function for each of its loops and calls it with an iterator for each
    execution, which takes as many elements as it needs. Where an element is to be looked at, it is
    taken from the iterator, shown, and put back in front: the function is called with an iterator
    of the same spec that yields this element and then, one by one as they are asked for, those of
    Keras' iterator. Nothing is read ahead, nothing is traced again, and the next call gets Keras'
    own iterator. So training goes on bit for bit as it would have without the look.

    Attributes of the function, such as those that a `tf.function` has, are found here too.

    Args:
        function: As Keras' `make_train_function` and its like make it, or as a user wrote it: takes
            an iterator of a dataset, an iterator of Python, or a list of elements (`predict`).
        look: Is shown the element as the step gets it, with eager tensors; None if there is none,
            so that a look in which several ranks take part can begin on all of them.
        wants_to_look: Is asked before each execution whether to look; gets the kind of the elements
            that follow (see `kind_of`; of elements from Python also whether they have a single
            sample), or None if there are none.
        subject: Of the function: what tells its step from others.

    Attributes:
        function: As above.
        subject: As above.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        look: Callable[[Any], None],
        wants_to_look: Callable[[Hashable], bool],
        subject: Hashable = None,
    ) -> None:
        # Without its `__dict__`: those of a `tf.function` change, and are read from it.
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.subject = subject
        self._look = look
        self._wants_to_look = wants_to_look
        self._spec: Any = None
        self._kind: Hashable = None

    def __call__(self, data: Any) -> Any:
        """Run the function, after a look if it is wanted. Local, unless the look is collective.

        Args:
            data: What Keras gives the function.

        Returns:
            What the function returns.
        """
        if isinstance(data, tf.data.Iterator):
            if not self._wants_to_look(self._kind_of_spec(data.element_spec)):
                return self.function(data)
            first, data = _of_dataset(data)
        else:
            if isinstance(data, Iterator):
                first, data = _of_python(data)
            else:
                first = data[0]
            if first is not None:  # else the data have ended, as other ranks may not see yet
                # A step may be called with one sample first, whose proof says little of others.
                self._kind = (kind_of(first), has_one_sample(first))
            if not self._wants_to_look(self._kind):
                return self.function(data)
        self._look(_with_none(first))
        return self.function(data)

    def _kind_of_spec(self, spec: Any) -> Hashable:
        """Return the kind of elements with some spec; it is that of the last call in most steps."""
        if spec is not self._spec:
            self._spec, self._kind = spec, kind_of(spec)
        return self._kind

    def replace(self, function: Callable[[Any], Any]) -> None:
        """Run another function from now on, also after the look that calls this. Local.

        Args:
            function: Of the same kind.
        """
        functools.update_wrapper(self, function, updated=())
        self.function = function

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the function."""
        if name == "function":  # not set yet, as in a copy that is being made
            raise AttributeError(name)
        return getattr(self.function, name)


def kind_of(element: Any) -> Hashable:
    """Return what decides which code of a step an element goes through, sizes left out. Pure.

    That is its structure with classes, dtypes and numbers of dimensions: a step that unpacks its
    data does other things if there are sample weights.

    Args:
        element: Any structure of tensors, or of their specs.
    """
    return repr(tf.nest.map_structure(_kind_of_leaf, element))


def _kind_of_leaf(leaf: Any) -> str:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:  # also an empty optional, which Keras makes of None
        return "None"
    form = "dense"
    if isinstance(leaf, (tf.RaggedTensor, tf.RaggedTensorSpec)):
        form = "ragged"
    elif isinstance(leaf, (tf.SparseTensor, tf.SparseTensorSpec)):
        form = "sparse"
    return f"{form} {dtype} of {tf.TensorShape(leaf.shape).rank} dimensions"


def _of_dataset(iterator: Any) -> tuple[Any, Any]:
    """Return the next element, None at the end, and an iterator that still has it."""
    first = iterator.get_next_as_optional()
    data = iter(_put_back(first, iterator))
    return (first.get_value() if first.has_value() else None), data


def _put_back(first: Any, iterator: Any) -> tf.data.Dataset:
    """Return a dataset of an optional element, if it has a value, and those of an iterator."""

    @tf.autograph.experimental.do_not_convert
    def next_optional(source: Any) -> Any:
        return source.get_next_as_optional()

    @tf.autograph.experimental.do_not_convert
    def has_value(optional: Any) -> Any:
        return optional.has_value()

    # An optional knows the spec of the iterator, with all dimensions that are open in it.
    @tf.autograph.experimental.do_not_convert
    def value(optional: Any) -> Any:
        return optional.get_value()

    # The iterator is an element, not captured: graphs live until Python looks for circles, and
    # would keep what the iterator has in its buffers.
    following = tf.data.Dataset.from_tensors(iterator).repeat().map(next_optional)
    optionals = tf.data.Dataset.from_tensors(first).concatenate(following)
    return optionals.take_while(has_value).map(value).with_options(_only_as_written())


def _only_as_written() -> tf.data.Options:
    """Return options by which nothing is computed ahead: what is read, the step must get."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    return options


def _of_python(iterator: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    """Return the next element, None at the end, and an iterator that still has it."""
    taken = list(itertools.islice(iterator, 1))
    return (taken[0] if taken else None), itertools.chain(taken, iterator)


def _with_none(element: Any) -> Any:
    """Return an element with None where Keras has put an empty optional, as its steps get it."""
    return tf.nest.map_structure(
        lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, element
    )
