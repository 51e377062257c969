"""The classes of the installed TensorFlow are the known ones, and datasets can be rebuilt."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf
from cases import cases
from simulated_ranks import PICK, assert_ranks_share_serial_batches, serial_epochs
from tensorflow.python.data import ops as dataset_modules
from tensorflow.python.data.experimental.ops import cardinality

import tnt_data
from tnt_data import NotBatchedError, RowSplit, tensorflow_private
from tnt_data.description.transformation import Kind
from tnt_data.rank_dataset.serial_part import Rebuilder, Repairs
from tnt_data.tensorflow_private import is_known_version
from tnt_data.transformations import read
from tnt_data.transformations.catalogue import CATALOGUE
from tnt_data.transformations.read import read_transformations

Data = tf.data.Dataset


def classes_of_tensorflow() -> set[str]:
    modules = [
        importlib.import_module(f"{dataset_modules.__name__}.{info.name}")
        for info in pkgutil.iter_modules(dataset_modules.__path__)
        if not info.name.endswith("_test")
    ]
    return {
        name.strip("_")
        for module in [*modules, cardinality]
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, tf.data.Dataset)
    }


def test_installed_release_is_known() -> None:
    assert is_known_version()


def test_every_known_class_exists_in_the_installed_release() -> None:
    assert set(CATALOGUE) - classes_of_tensorflow() == set()


FACTOR = tf.Variable(3, dtype=tf.int64)
TRANSFORMATIONS: dict[str, Callable[[tf.data.Dataset], tf.data.Dataset]] = {
    "batch": lambda d: d.batch(4).batch(2),
    "parallel batch": lambda d: d.batch(4, num_parallel_calls=2),
    "padded_batch": lambda d: d.map(tf.range).padded_batch(
        3, padding_values=tf.constant(7, tf.int64)
    ),
    "ragged_batch": lambda d: d.map(tf.range).ragged_batch(3, row_splits_dtype=tf.int32),
    "sparse_batch": lambda d: d.map(tf.range).sparse_batch(4, [12]),
    "rebatch": lambda d: d.batch(3).rebatch([2, 5]),
    "unbatch": lambda d: d.batch(3).unbatch(),
    "cache": lambda d: d.cache(),
    "prefetch": lambda d: d.prefetch(3),
    "repeat": lambda d: d.repeat(2),
    "take": lambda d: d.take(5),
    "skip": lambda d: d.skip(5),
    "shard": lambda d: d.shard(3, 1),
    "options": lambda d: d.with_options(tf.data.Options()),
    "assert_cardinality": lambda d: d.apply(tf.data.experimental.assert_cardinality(12)),
    "map": lambda d: d.map(lambda x: x + 1, synchronous=True),
    "parallel map": lambda d: d.map(lambda x: x + 1, num_parallel_calls=2),
    "map without effect": lambda d: d.map(lambda x: x).repeat(3),
    "filter": lambda d: d.filter(lambda x: x > 4),
    "take_while": lambda d: d.take_while(lambda x: x < 10),
    "scan": lambda d: d.scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s)),
    "unique": lambda d: d.map(lambda x: x // 2).unique(),
    "ignore_errors": lambda d: d.map(lambda x: 5 // x).ignore_errors(),
    "flat_map": lambda d: d.flat_map(Data.range),
    "interleave": lambda d: d.interleave(Data.range, cycle_length=3, block_length=2),
    "parallel interleave": lambda d: d.interleave(
        Data.range, cycle_length=3, block_length=2, num_parallel_calls=2
    ),
    "window": lambda d: d.window(3, shift=2).flat_map(lambda w: w.batch(3)),
    "group_by_window": lambda d: d.group_by_window(
        lambda x: x % 2, lambda key, w: w.batch(3).map(lambda x: (key, x)), window_size=3
    ),
    "zip": lambda d: Data.zip({"a": d, "b": (d.skip(0), Data.range(9))}).map(lambda e: e["a"]),
    "enumerate": lambda d: d.enumerate(),
    "concatenate": lambda d: d.concatenate(Data.range(3)),
    "choose_from_datasets": lambda d: Data.choose_from_datasets(
        [d, Data.range(50, 90)], Data.range(2).repeat(20)
    ),
    "captured variable": lambda d: d.map(lambda x: x * FACTOR),
}


@pytest.mark.parametrize("case", TRANSFORMATIONS)
def test_transformation_after_a_shuffle_without_a_seed_is_rebuilt_faithfully(case: str) -> None:
    def make(seed: int | None) -> tf.data.Dataset:
        return TRANSFORMATIONS[case](Data.range(12).shuffle(5, seed=seed))

    dataset = make(None)
    unknown = {one.name for one in read_transformations(dataset).walk() if one.kind is Kind.OPAQUE}
    assert unknown <= {"VariantDataset"}  # the counter that enumerate makes
    rebuilt = Rebuilder(Repairs(RowSplit(0, 1, 1), 42)).build(read_transformations(dataset))
    assert rebuilt is not dataset
    assert rebuilt.element_spec == dataset.element_spec
    assert int(rebuilt.cardinality()) == int(dataset.cardinality())
    assert repr(serial_epochs(lambda: rebuilt, 2)) == repr(serial_epochs(lambda: make(42), 2))


def test_sampling_without_a_seed_is_seeded() -> None:
    parts = [Data.range(20).map(lambda x, k=k: 100 * k + x) for k in range(2)]

    def make(seed: int | None) -> tf.data.Dataset:
        return Data.sample_from_datasets(parts, [0.3, 0.7], seed=seed).batch(6)

    rewritten = Rebuilder(Repairs(RowSplit(0, 2, 2), 42)).build(read_transformations(make(None)))
    again = Rebuilder(Repairs(RowSplit(1, 2, 2), 42)).build(read_transformations(make(None)))
    assert repr(serial_epochs(lambda: rewritten)) == repr(serial_epochs(lambda: again))


def test_what_needs_no_repair_stays_the_object_of_the_user() -> None:
    dataset = Data.range(9).cache().shuffle(4, seed=1)
    rebuilt = Rebuilder(Repairs(RowSplit(0, 2, 2), 42)).build(
        read_transformations(dataset.shuffle(3))
    )
    assert rebuilt._input_dataset is dataset


def test_cache_on_disk_is_separate_for_each_rank(tmp_path: Path) -> None:
    def make(folder: Path) -> tf.data.Dataset:
        dataset = Data.range(7).cache(str(folder / "samples")).batch(4)
        return dataset.cache(str(folder / "batches")).prefetch(1)

    for name in ("serial", "ranks"):
        (tmp_path / name).mkdir()
    assert_ranks_share_serial_batches(
        lambda: make(tmp_path / "ranks"), lambda: make(tmp_path / "serial"), 3, way=PICK, epochs=2
    )
    stems = {
        path.name.rsplit("_", 1)[0].split(".index")[0] for path in (tmp_path / "ranks").iterdir()
    }
    names = {f"{kind}.rank{rank}of3" for kind in ("samples", "batches") for rank in range(3)}
    assert all(any(stem.startswith(name) for stem in stems) for name in names)


SNAPSHOTS: dict[str, Callable[[str], tf.data.Dataset]] = {
    "before the batch": lambda f: Data.range(13).shuffle(13, seed=3).snapshot(f).batch(4),
    "after the batch": lambda f: Data.range(13).shuffle(13, seed=3).batch(4).snapshot(f),
    "in shards": lambda f: Data.range(13).snapshot(f, shard_func=lambda x: x % 3).batch(4),
}


@cases("case", ["in shards"], thorough=SNAPSHOTS)
def test_each_rank_writes_and_reads_its_own_snapshot(case: str, tmp_path: Path) -> None:
    serial, ranks = str(tmp_path / "serial"), str(tmp_path / "ranks")
    assert_ranks_share_serial_batches(
        lambda: SNAPSHOTS[case](ranks), lambda: SNAPSHOTS[case](serial), 3, way=PICK, epochs=3
    )
    names = {"serial", *(f"ranks.rank{rank}of3" for rank in range(3))}
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.fixture
def unknown_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorflow_private, "KNOWN_VERSIONS", ((1, 0),))
    read.warn_of_unknown_release.cache_clear()


@pytest.mark.usefixtures("unknown_release")
def test_unknown_release_warns_once_and_cuts_batches(caplog: pytest.LogCaptureFixture) -> None:
    def make() -> tf.data.Dataset:
        return Data.range(11).shuffle(5, seed=3).batch(4)

    with caplog.at_level(logging.WARNING, "tnt_data"):
        assert_ranks_share_serial_batches(make, make, 3, way=PICK, epochs=2)
    (record,) = caplog.records
    assert tf.__version__ in record.getMessage()
    assert tnt_data.describe_order(make()) == ""
    assert "the dataset is not understood" in tnt_data.explain(make(), 2)


@pytest.mark.usefixtures("unknown_release")
def test_unknown_release_judges_batches_by_shapes() -> None:
    with pytest.raises(NotBatchedError, match="share no first dimension"):
        tnt_data.distribute(Data.range(4), 0, 2)
    dataset = Data.range(5).map(lambda x: (x, x)).batch(2, drop_remainder=True)
    assert len(list(tnt_data.distribute(dataset, 0, 2))) == 2


def test_inside_a_graph_the_pipeline_is_not_read() -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def total() -> tf.Tensor:
        dataset = tnt_data.distribute(Data.range(5).batch(4), 1, 2)
        return dataset.reduce(tf.constant(0, tf.int64), lambda s, e: s + tf.reduce_sum(e.data))

    assert int(total()) == 1 + 3 + 4
