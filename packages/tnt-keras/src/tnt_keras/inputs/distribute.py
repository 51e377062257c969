"""Turn the input of the user into what Keras is given on this rank."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import tnt_data
from tnt_keras.inputs.arguments import InputArguments, check_input, errors_naming
from tnt_keras.inputs.arrays import IN_BATCHES, SEED, Arrays, Seeds, seeds_of_keras, seeds_of_master
from tnt_keras.inputs.class_weights import ClassWeight, WeightTable, class_weights_of
from tnt_keras.inputs.compare_ranks import (
    require_same_arrays_of_dataset,
    require_same_input_arrays,
    require_same_number_of_steps,
    require_same_pipeline,
)
from tnt_keras.inputs.distribute_python import (
    distribute_python_input,
    free_iterators_at_exit,
)
from tnt_keras.inputs.distributed_input import (
    BatchFunction,
    DistributedInput,
    map_batches,
    map_micro_batches,
)
from tnt_keras.inputs.master_reader import MasterInput, catching_up_after, is_read_by_master
from tnt_keras.keras_hooks.private import adapter_of
from tnt_keras.process.lanes import row_split
from tnt_keras.process.rank import get_size, logger
from tnt_keras.process.step_hashes import note, step_hashes
from tnt_keras.step.batch import compared, unmarked


def distribute_input(
    given: InputArguments,
    *,
    shuffle: Any = False,
    class_weight: ClassWeight = None,
    seed: int = SEED,
) -> DistributedInput:
    """Check an input and give this rank its part. Collective on several ranks."""
    check_input(given)
    if shuffle not in (True, False, IN_BATCHES):
        raise ValueError(
            f"`shuffle` must be True, False or {IN_BATCHES!r}. Received: shuffle={shuffle!r}."
        )
    if given.verify and not given.distribute and get_size() > 1:
        logger.warning(
            "`verify_inputs` has no effect with `%s=False`: each rank reads its own samples, so "
            "there is no common batch to compare. [not-compared]",
            given.keywords.distribute,
        )
    with errors_naming(given.keywords.x, given.keywords.micro_batch_size):
        if given.is_from_python:
            return distribute_python_input(given, bool(shuffle), class_weight)
        if given.is_dataset:
            data = _distribute_dataset(given, class_weight)
        else:
            data = _distribute_arrays(given, class_weight, shuffle, seed)
    if get_size() == 1 or not isinstance(data.data, tf.data.Dataset):
        return data
    return dataclasses.replace(data, data=tnt_data.without_autotuning(data.data))


def callbacks_for_data(
    data_check: Callable[[], Any], **inputs: DistributedInput | None
) -> list[keras.callbacks.Callback]:
    """Return what the ends of the data need, the kind of the call first. Collective at first."""
    given = {kind: part for kind, part in inputs.items() if part is not None}
    compared = {kind: part.is_compared for kind, part in given.items()}
    callbacks: list[keras.callbacks.Callback] = []
    if any(compared.values()):
        callbacks.append(data_check().end_of_data(**compared))
    if any(part.is_read_by_master for part in given.values()):
        callbacks.append(catching_up_after(next(iter(inputs))))
    return callbacks


def _distribute_dataset(given: InputArguments, class_weight: ClassWeight) -> DistributedInput:
    weights = None if class_weight is None else WeightTable(class_weight)
    if not given.distribute:
        return _keep_own(given.x, given, [], weights)
    pipeline = tnt_data.Pipeline(given.x)
    _note_what_may_differ(pipeline)
    if is_read_by_master(given, lambda: bool(pipeline.find_differences(get_size()))):
        return _read_by_master(pipeline, given, class_weight)
    if get_size() > 1:
        batch_size = _global_batch_size(pipeline, given)
        require_same_pipeline(pipeline, str(given.x.element_spec), batch_size, given.keywords)
        require_same_arrays_of_dataset(pipeline, given)
    return _share(pipeline, given, [], SEED, weights)


def _note_what_may_differ(pipeline: tnt_data.Pipeline) -> None:
    """Note what may give other samples in another run, if hashes of steps are written. Local."""
    if step_hashes() is not None:
        found = [*pipeline.find_irreproducible(seeded=True), *pipeline.find_stateful_draws()]
        for sentence in dict.fromkeys(found):
            note("map", sentence)


def _read_by_master(
    pipeline: tnt_data.Pipeline, given: InputArguments, class_weight: ClassWeight
) -> DistributedInput:
    """Let the master rank read the batches of a dataset as plain Keras does."""
    batch_size = _global_batch_size(pipeline, given)
    size = None if given.micro_batch_size is None else batch_size
    batches = pipeline.distribute(0, 1, micro_batch_size=size, may_differ=given.may_differ)
    whole = given.x if size is None else map_batches(batches, [unmarked])
    if (
        given.steps is None
    ):  # else it may be left in the middle, and how far it is read ahead matters
        whole = tnt_data.without_autotuning(whole)
    free_iterators_at_exit()
    return DistributedInput(
        MasterInput(lambda: adapter_of(whole, class_weight), may_differ=given.may_differ),
        batch_size,
        is_compared=False,
        epochs_are_independent=pipeline.passes_are_independent,
        irreproducible=tuple(pipeline.find_irreproducible(seeded=True)),
        is_read_by_master=True,
    )


def _distribute_arrays(
    given: InputArguments, class_weight: ClassWeight, shuffle: Any, seed: int
) -> DistributedInput:
    sample_weight = given.sample_weight
    if class_weight is not None:
        sample_weight = class_weights_of(given.y, sample_weight, class_weight)
    arrays = Arrays.pack(given.x, given.y, sample_weight)
    seeds = _seeds_of_order(given) if shuffle else None
    if shuffle == IN_BATCHES:
        seeds = seeds or (seed, 0)
        positions = arrays.positions_mixed_in_batches(given.array_batch_size, seeds)
    elif seeds is None:
        positions = arrays.positions(given.array_batch_size, shuffle=shuffle)
    else:
        positions = arrays.positions_as_keras_shuffles(given.array_batch_size, seeds)
    functions: list[BatchFunction] = [arrays.rows_at]
    if not given.distribute:
        return _keep_own(positions, given, functions)
    pipeline = tnt_data.Pipeline(positions)
    if get_size() > 1:
        elements = f"{arrays.batch_spec} of {arrays.num_samples} samples"
        elements += f" in order {seeds or seed}" if shuffle else ""
        require_same_pipeline(pipeline, elements, given.array_batch_size, given.keywords)
        require_same_input_arrays(arrays, given)
    if seeds is None:
        return _share(pipeline, given, functions, seed)
    split = row_split()
    with_fingerprint = bool(given.verify) and split.size > 1
    parts = tnt_data.slice_batches(
        positions, split.rank, split.size, with_fingerprint, lanes=split.lanes
    )
    local = map_micro_batches(parts, functions)
    batch_size, is_compared = given.array_batch_size, bool(given.verify)
    return _as_input(local, pipeline, None, batch_size, is_compared=is_compared, seeded=True)


def _seeds_of_order(given: InputArguments) -> Seeds | None:
    """Return the seeds of the order of arrays, which all ranks share if they share the samples."""
    is_shared = given.distribute and get_size() > 1
    return seeds_of_master() if is_shared else seeds_of_keras()


def _share(
    pipeline: tnt_data.Pipeline,
    given: InputArguments,
    functions: list[BatchFunction],
    seed: int,
    weights: WeightTable | None = None,
) -> DistributedInput:
    """Give this rank its rows of each global batch."""
    split = row_split()
    local = pipeline.distribute(
        split.rank,
        split.size,
        lanes=split.lanes,
        micro_batch_size=given.micro_batch_size,
        seed=seed,
        fingerprint=bool(given.verify) and split.size > 1,
        may_differ=given.may_differ,
    )
    local = map_micro_batches(local, functions)
    # Only the code itself can tell whether ranks are given as many samples by it.
    is_compared = bool(given.verify) or pipeline.calls_python
    if pipeline.calls_python:
        free_iterators_at_exit()
    batch_size = _global_batch_size(pipeline, given)
    return _as_input(local, pipeline, weights, batch_size, is_compared=is_compared, seeded=True)


def _keep_own(
    dataset: tf.data.Dataset,
    given: InputArguments,
    functions: list[BatchFunction],
    weights: WeightTable | None = None,
) -> DistributedInput:
    """Give this rank its whole input: the user has split the samples between ranks."""
    is_compared = given.has_micro_batches or given.needs_equal_steps
    if is_compared and get_size() > 1:
        require_same_number_of_steps(dataset, given.steps, given.keywords)
    map_all = map_micro_batches if given.has_micro_batches else map_batches
    pipeline, own = tnt_data.Pipeline(dataset), map_all(dataset, functions)
    return _as_input(own, pipeline, weights, None, is_compared=is_compared, seeded=False)


def _as_input(
    dataset: tf.data.Dataset,
    pipeline: tnt_data.Pipeline,
    weights: WeightTable | None,
    batch_size: int | None,
    *,
    is_compared: bool,
    seeded: bool,
) -> DistributedInput:
    """Give a dataset weights, and on several ranks marks by which ranks compare their batches."""
    has_micro_batches = isinstance(dataset.element_spec, tnt_data.MicroBatch)
    functions: list[BatchFunction] = []
    if get_size() == 1:
        is_compared = False
        functions += [unmarked] if has_micro_batches else []
    elif has_micro_batches:
        is_compared = is_compared or weights is not None
    if weights is not None:
        functions.append(weights.weigh)
    elif get_size() > 1 and (is_compared or not has_micro_batches):
        functions.append(compared)
    dataset = map_batches(dataset, functions)
    return DistributedInput(
        dataset,
        batch_size,
        is_compared,
        pipeline.passes_are_independent,
        tuple(pipeline.find_irreproducible(seeded=seeded)),
    )


def _global_batch_size(pipeline: tnt_data.Pipeline, given: InputArguments) -> int | None:
    if given.micro_batch_size is not None:
        return given.micro_batch_size * get_size()
    return pipeline.batch_size
