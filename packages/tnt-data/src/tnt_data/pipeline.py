"""The entry points: a dataset whose pipeline is read once, and functions for a single question."""

from __future__ import annotations

import functools

import tensorflow as tf

from tnt_data.description.batching import Batching, judge_batching
from tnt_data.description.draws import find_stateful_draws
from tnt_data.description.order import order_of
from tnt_data.description.passes import find_irreproducible, passes_are_independent
from tnt_data.description.rank_differences import find_differences
from tnt_data.description.transformation import Transformation
from tnt_data.elements.fingerprints import fingerprint_of
from tnt_data.elements.row_split import RowSplit, split_of_dataset
from tnt_data.plan.explain import explain_plan
from tnt_data.plan.report import report_plan, report_random_fingerprint
from tnt_data.plan.split import PICK_FROM_BYTES, plan_split
from tnt_data.rank_dataset.rewrite import rewrite
from tnt_data.rank_dataset.serial_part import Repairs
from tnt_data.transformations.read import read_transformations
from tnt_data.transformations.sources import some_rows

_RESULTS = "_tnt_data_results"


class Pipeline:
    """A dataset whose transformations are read once, whatever is asked about them. Local.

    Nothing is read before the first question, and no element of the dataset at all.

    Attributes:
        dataset: The dataset.

    Example:
        >>> pipeline = Pipeline(tf.data.Dataset.range(8).shuffle(8, seed=3).batch(4))
        >>> pipeline.batch_size, pipeline.order
        (4, 'shuffle(8) with seed 3, batch(4)')
        >>> rows = pipeline.distribute(rank=0, size=2)
    """

    def __init__(self, dataset: tf.data.Dataset) -> None:
        """Take a dataset.

        Args:
            dataset: Any dataset. Its transformations must not depend on the rank.

        Raises:
            TypeError: If it is not a `tf.data.Dataset`; says how to create one.
        """
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(
                f"Only a tf.data.Dataset can be distributed. Received: {type(dataset).__name__}. "
                "Create one, for example with tf.data.Dataset.from_tensor_slices((x, "
                "y)).batch(n)."
            )
        self.dataset = dataset

    @property
    def batch_size(self) -> int | None:
        """Number of samples in a full global batch, None if not batched or unknown."""
        return self._batching.batch_size

    @property
    def is_batched(self) -> bool:
        """Whether the elements are batches, by a transformation that makes them, or by shapes."""
        return self._batching.is_batched

    @property
    def order(self) -> str:
        """The transformations that decide which samples come when, see `describe_order`."""
        return order_of(self._last)

    @property
    def passes_are_independent(self) -> bool:
        """Whether a pass is the same if earlier passes were started but not read."""
        return passes_are_independent(self._last)

    @property
    def calls_python(self) -> bool:
        """Whether Python code makes or changes elements; it might do so differently per rank."""
        python = {"generator", "python"}
        return any(one.function_contents & python for one in self._last.walk())

    def find_irreproducible(self, *, seeded: bool) -> list[str]:
        """Return, in sentences, what makes another process see different samples in a pass. Local.

        Args:
            seeded: Whether shuffles without a seed get one, as `distribute` does.
        """
        return find_irreproducible(self._last, seeded=seeded)

    def find_stateful_draws(self) -> list[str]:
        """Return, in sentences, which functions draw other random numbers in another run. Local.

        That is so without a seed, in parallel calls, and from a `tf.random.Generator` or generator
        of Keras whose seed is not known here: whatever does not come with the element. What of it
        is certain, `find_irreproducible` says too. `explain` gives the remedy.
        """
        return find_stateful_draws(self._last)

    def find_differences(self, size: int) -> list[str]:
        """Return what may make ranks see different samples even after all repairs. Local.

        Args:
            size: Number of ranks.
        """
        return find_differences(self._last, size)

    def fingerprint_of_arrays(self, num_rows: int) -> int:
        """Return a number by which ranks can compare the arrays that a dataset consists of. Local.

        Strings do not count: names of files may differ from host to host.

        Args:
            num_rows: About how many rows to look at, spread over each array.

        Returns:
            64 bits, from the numbers that `from_tensor_slices` was given; 1 if there are none.
        """
        rows = [some_rows(one, num_rows) for one in self._last.walk()]
        return int(fingerprint_of(rows))

    def distribute(
        self,
        rank: int,
        size: int,
        *,
        lanes: int | None = None,
        micro_batch_size: int | None = None,
        seed: int = 42,
        fingerprint: bool = False,
        may_differ: bool = False,
    ) -> tf.data.Dataset:
        """Return one rank's part of the dataset, as the function `distribute` does. Local.

        Args:
            rank: Rank of the caller, `0 <= rank < size`.
            size: Number of ranks.
            lanes: Number of lanes of a batch, as for the function.
            micro_batch_size: Samples per rank and step, as for the function.
            seed: For shuffles without a seed.
            fingerprint: Whether each micro-batch has a number computed from its global batch.
            may_differ: Whether components may have a different number of rows than the batch has
                samples, see `MicroBatch.shared`; otherwise that is an error.

        Returns:
            Dataset of `MicroBatch`; the same object for the same dataset and arguments.

        Raises:
            NotBatchedError: If the dataset is not batched and `micro_batch_size` is missing.
            BatchSizeError: If `micro_batch_size` does not fit.
            UnsupportedElementError: If elements have no rows that ranks could share.
            ValueError: If `rank` is not in `[0, size)`, or `lanes` is not a multiple of `size`.
        """
        split = split_of_dataset(rank, size, lanes)
        key = (split, micro_batch_size, seed, fingerprint, may_differ)
        results = self.dataset.__dict__.setdefault(_RESULTS, {})
        if key not in results:
            results[key] = self._distribute(*key[:-1], may_differ=may_differ)
        return results[key]

    def explain(
        self,
        size: int,
        *,
        lanes: int | None = None,
        micro_batch_size: int | None = None,
        seed: int = 42,
    ) -> str:
        """Explain what `distribute` does, as the function `explain` does. Local.

        Args:
            size: Number of ranks.
            lanes: As for `distribute`.
            micro_batch_size: As for `distribute`.
            seed: As for `distribute`.

        Returns:
            Several lines of text.

        Raises:
            ValueError: As for `distribute`.
        """
        split = split_of_dataset(0, size, lanes)
        last = self._batched(size, micro_batch_size)
        plan = plan_split(last, size)
        return explain_plan(plan, split, seed, find_differences(last, size), last)

    @functools.cached_property
    def _last(self) -> Transformation:
        return read_transformations(self.dataset)

    @functools.cached_property
    def _batching(self) -> Batching:
        return judge_batching(self._last)

    def _batched(self, size: int, micro_batch_size: int | None) -> Transformation:
        """Describe the dataset, batched here if it is not and a micro-batch size is given."""
        batch_size = self._batching.size_to_add(micro_batch_size, size)
        if batch_size is None:
            return self._last
        return read_transformations(self.dataset.batch(batch_size), self._last)

    def _distribute(
        self,
        split: RowSplit,
        micro_batch_size: int | None,
        seed: int,
        fingerprint: bool,
        pick_from_bytes: int = PICK_FROM_BYTES,
        may_differ: bool = False,
    ) -> tf.data.Dataset:
        last = self._batched(split.size, micro_batch_size)
        plan = plan_split(last, split.size, pick_from_bytes)
        report_plan(last, plan, split, seed)
        if fingerprint and plan.random_before_split:
            report_random_fingerprint(plan, split.rank)
            fingerprint = False
        return rewrite(plan, Repairs(split, seed), fingerprint, may_differ)


def distribute(
    dataset: tf.data.Dataset,
    rank: int,
    size: int,
    *,
    lanes: int | None = None,
    micro_batch_size: int | None = None,
    seed: int = 42,
    fingerprint: bool = False,
) -> tf.data.Dataset:
    """Return one rank's part of a dataset: step k of all ranks together is the serial batch k.

    Rank `r` gets the rows `batch[r::size]` of every global batch and takes part in every step; if
    it has no sample, it gets one copied row and `num_local == 0`. With `lanes` it gets the rows
    `batch[v::lanes]` of each of its lanes `v`, lane after lane: from lane `r * lanes / size` on, as
    many as any other rank. A single rank gets whole batches in their own order, whatever the lanes.

    Shuffles without a seed get `seed`, even with a single rank. Called again with the same dataset
    object and arguments, it returns the same object, so caches stay filled and shuffles continue
    with a new order.

    Local: no rank waits for another, but all ranks must pass the same pipeline.

    Args:
        dataset: Batched with the global batch size. If no transformation makes batches, the first
            dimension of the elements is that of the batch, as in Keras. The transformations must
            not depend on the rank.
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks.
        lanes: Number of lanes of a batch, a multiple of `size`, which it is by default.
        micro_batch_size: Samples per rank and step. An unbatched dataset is batched with
            `micro_batch_size * size`; the batch size of a batched one must equal that.
        seed: For shuffles without a seed.
        fingerprint: Whether each micro-batch has a number computed from its global batch, to be
            compared between ranks. If random numbers, such as those of an augmentation, come before
            the place at which rows are taken, fingerprints would always differ: then there is a
            warning, and the number is 0.

    Returns:
        Dataset of `MicroBatch` with as many steps as the serial dataset; its cardinality is that
        of the serial dataset whenever that is known.

    Raises:
        NotBatchedError: If the dataset is not batched and `micro_batch_size` is missing.
        BatchSizeError: If `micro_batch_size` does not fit.
        UnsupportedElementError: If elements have no rows that ranks could share.
        ValueError: If `rank` is not in `[0, size)`, or `lanes` is not a multiple of `size`.
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    return Pipeline(dataset).distribute(
        rank,
        size,
        lanes=lanes,
        micro_batch_size=micro_batch_size,
        seed=seed,
        fingerprint=fingerprint,
    )


def explain(
    dataset: tf.data.Dataset,
    size: int,
    *,
    lanes: int | None = None,
    micro_batch_size: int | None = None,
    seed: int = 42,
) -> str:
    """Explain what `distribute` does with a dataset: in words, and as a table. Local.

    Args:
        dataset: As for `distribute`.
        size: Number of ranks.
        lanes: As for `distribute`.
        micro_batch_size: As for `distribute`.
        seed: As for `distribute`.

    Returns:
        Several lines of text: batches, way, warnings, and one line for each transformation.

    Raises:
        ValueError: As for `distribute`.
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    return Pipeline(dataset).explain(
        size, lanes=lanes, micro_batch_size=micro_batch_size, seed=seed
    )


def global_batch_size(dataset: tf.data.Dataset) -> int | None:
    """Return the number of samples in a full global batch, None if not batched or unknown. Local.

    Args:
        dataset: As for `distribute`.

    Returns:
        Number of samples of all ranks together.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    return Pipeline(dataset).batch_size


def is_batched(dataset: tf.data.Dataset) -> bool:
    """Return whether elements are batches: a transformation makes them, or shapes say so. Local.

    Without such a transformation they are, as in Keras, if all components share a first dimension.

    Args:
        dataset: As for `distribute`.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    return Pipeline(dataset).is_batched


def describe_order(dataset: tf.data.Dataset) -> str:
    """Name the transformations that decide which samples come when, with their seeds. Local.

    Processes that build the same pipeline get the same text. They do not if, for example, one of
    them draws its seeds at random, or takes its own part.

    Args:
        dataset: As for `distribute`.

    Returns:
        Transformations from the sources on, such as `"shuffle(9) with seed 3, batch(4)"`; empty
        without any, and with releases of TensorFlow whose transformations are not known.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    return Pipeline(dataset).order
