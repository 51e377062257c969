"""`tnt.data.distribute`: the part of each batch that this rank takes, for loops over a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.calls.together import collective_call
from tnt_keras.inputs.arguments import OWN_LOOP, input_of_call
from tnt_keras.inputs.distribute import distribute_input
from tnt_keras.process.framework import set_up_process
from tnt_keras.process.rank import get_size
from tnt_keras.step.batch import Part
from tnt_keras.step.owner import loop_over_parts

_PART = "_tnt_part"


class DistributedDataset:
    """This rank's part of each global batch, from `distribute`.

    Args:
        dataset: A dataset of micro-batches; on one rank, of whole batches.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        """Yield the elements of one pass. Local.

        Raises:
            RuntimeError: Inside of a `tf.function`, on several ranks.
        """
        if get_size() == 1:
            yield from self._dataset
            return
        if tf.inside_function():
            raise RuntimeError(
                "A loop over `tnt.data.distribute(dataset)` is inside a `tf.function`, which "
                "cannot contain steps of several ranks: remove `@tf.function` from the function "
                "with the loop, and put `@tnt.function` on the step in it."
            )
        for element in self._dataset:
            part = Part(None, int(element.num_local), int(element.num_global))
            for leaf in tf.nest.flatten(element.data):
                setattr(leaf, _PART, part)
            with loop_over_parts():
                yield element.data

    def __len__(self) -> int:
        """Return the number of batches, which all ranks have.

        Raises:
            TypeError: If it is infinite or not known.
        """
        return len(self._dataset)

    @property
    def element_spec(self) -> Any:
        """The spec of the elements: those of the dataset itself, with some of the rows."""
        spec = self._dataset.element_spec
        return spec.data if isinstance(spec, tnt_data.MicroBatch) else spec


def part_of(tensor: Any) -> Part | None:
    """Return of which part of a batch a tensor is, if known: its numbers without data. Local."""
    return getattr(tensor, _PART, None)


@collective_call("data.distribute")
def distribute(
    dataset: tf.data.Dataset, *, micro_batch_size: int | None = None, read: str | None = None
) -> DistributedDataset:
    """Share a dataset between ranks, for your own training loop. Collective.

    For example::

        for x, y in tnt.data.distribute(dataset):
            loss = train_step(x, y)        # a `tnt.function`

    Each element holds the rows r, r + n, ... of a global batch on rank r of n, and knows that: pass
    it to a `tnt.function` as it is. With V lanes it holds the rows v, v + V, ... of each lane v of
    the rank, lane after lane; on one rank it is the whole batch, as the dataset yields it. A rank
    reads and computes only what its rows need, if the pipeline allows that, while a loop over the
    dataset itself reads all of it on every rank. All ranks get the same number of elements. If a
    batch has fewer samples than there are ranks, or lanes, a rank without samples gets a copy of
    the first one, with weight zero.

    `fit`, `evaluate` and `predict` take the dataset itself. `tnt_data.distribute` gives the parts
    as a `tf.data.Dataset`, for any rank.

    Args:
        dataset: Batched with the global batch size, the same on all ranks. A `shuffle` without a
            seed gets the same seed on all ranks.
        micro_batch_size: For an unbatched dataset, the number of samples of each rank in a step.
        read: "rank 0" or "all": which ranks read the dataset, as `tnt_read` of `fit`. If one rank
            reads, all must iterate to the end, or leave a loop after the same element.

    Returns:
        An iterable that can be used any number of times, each time in a new order if it is
        shuffled.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
        ValueError: If it cannot be shared, or ranks have different datasets.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            "`tnt.data.distribute` takes a `tf.data.Dataset`, such as "
            "`tf.data.Dataset.from_tensor_slices((x, y)).batch(64)`. "
            f"Received: {type(dataset).__name__}."
        )
    set_up_process()
    given = {"dataset": dataset, "micro_batch_size": micro_batch_size, "read": read}
    return DistributedDataset(distribute_input(input_of_call(given, OWN_LOOP)).batches)
