"""The same pictures are read from all three layouts, in any order, with the right labels."""

import re

import numpy as np
import pytest
import tensorflow as tf

from models.image_classification import small_datasets
from models.image_classification.datasets import evenly_spread, load_dataset, synthetic_dataset
from models.image_classification.layouts import find_files, open_source
from models.image_classification.preprocessing import CHANNEL_MEANS
from models.image_classification.record_files import index_records
from models.image_classification.small_datasets import cut_out
from tnt_data import Pipeline

NUM_PICTURES = 11
LAYOUTS = ["folders", "classic", "tfds"]


def write(layout, root, split="train", pictures=None):
    pictures = cut_out(NUM_PICTURES) if pictures is None else pictures
    if layout == "folders":
        small_datasets.write_class_folders(root / split, pictures)
    elif layout == "classic":
        small_datasets.write_classic_records(root, split, pictures)
    else:
        small_datasets.write_tfds_records(root, split, pictures)


def read_all(source):
    pictures = [source.read(*entries) for entries in zip(*source.samples, strict=True)]
    return {(one.encoded.numpy(), int(one.label)) for one in pictures}


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_picture_is_read_with_its_label(layout, split, tmp_path):
    write(layout, tmp_path, split)
    found = find_files(tmp_path, split)
    source = open_source(found)
    assert found.layout == layout
    assert source.num_samples == NUM_PICTURES
    assert read_all(source) == set(cut_out(NUM_PICTURES))


def test_a_folder_named_val_holds_the_validation_pictures(tmp_path):
    write("folders", tmp_path, "val")
    assert open_source(find_files(tmp_path, "validation")).num_samples == NUM_PICTURES


def test_a_split_without_a_class_keeps_the_numbers_of_the_others(tmp_path):
    for name in ("train/ape", "train/bee", "train/cow", "val/bee", "val/cow"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "picture.JPEG").write_bytes(b"")
    assert find_files(tmp_path, "train").labels == [0, 1, 2]
    assert find_files(tmp_path, "validation").labels == [1, 2]
    (tmp_path / "val/dog").mkdir()
    with pytest.raises(ValueError, match="lacks, such as dog"):
        find_files(tmp_path, "validation")


def test_more_classes_than_the_network_has_are_refused(tmp_path):
    write("folders", tmp_path)
    number = len(list((tmp_path / "train").iterdir()))
    load_dataset("train", tmp_path, None, 4, image_size=16, num_classes=number)
    with pytest.raises(ValueError, match=f"give --num_classes={number}"):
        load_dataset("train", tmp_path, None, 4, image_size=16, num_classes=number - 1)


def test_a_png_that_is_named_like_a_jpeg_is_read(tmp_path):
    pixels = np.full((30, 40, 3), 200, np.uint8)
    (tmp_path / "train/china").mkdir(parents=True)
    path = tmp_path / "train/china/n02105855_2933.JPEG"
    path.write_bytes(tf.io.encode_png(pixels).numpy())
    [(images, labels)] = load_dataset("train", tmp_path, None, 1, image_size=16)
    assert labels.numpy() == [0]
    np.testing.assert_allclose(images[0, 0, 0] + np.array(CHANNEL_MEANS), 200, atol=2)


def test_the_folder_that_holds_the_files_of_tensorflow_datasets_will_do(tmp_path):
    write("tfds", tmp_path)
    for folder in ("", "imagenet2012", "imagenet2012/5.1.0"):
        assert find_files(tmp_path / folder, "train").layout == "tfds"


def test_boxes_of_classic_records_are_ymin_xmin_ymax_xmax(tmp_path):
    write("classic", tmp_path)
    source = open_source(find_files(tmp_path, "train"))
    picture = source.read(*(entries[0] for entries in source.samples))
    np.testing.assert_allclose(picture.boxes, [[[0.1, 0.2, 0.8, 0.9]]])


def test_files_that_tensorflow_datasets_itself_has_prepared_are_read(tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets", reason="in `nox -s models` only")
    from models.image_classification.prepared_by_tfds import prepare

    pictures = cut_out(NUM_PICTURES)
    prepare(tfds, tmp_path, pictures)
    for split in ("train", "validation"):
        assert read_all(open_source(find_files(tmp_path, split))) == set(pictures)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dataset_type", ["train", "validation"])
def test_a_dataset_gives_normalised_images_of_the_asked_size(layout, dataset_type, tmp_path):
    write(layout, tmp_path, dataset_type)
    dataset = load_dataset(
        dataset_type=dataset_type,
        data_dir=tmp_path,
        num_samples=8,
        batch_size=3,
        dtype=tf.float32,
        image_size=24,
    )
    batches = list(dataset)
    assert [len(labels) for _, labels in batches] == [3, 3, 2]
    assert batches[0][0].shape == (3, 24, 24, 3)
    assert dataset.element_spec[0].dtype == tf.float32
    assert dataset.element_spec[1].dtype == tf.int32
    assert int(dataset.cardinality()) == 3
    images = np.concatenate([images for images, _ in batches])
    assert images.min() < 0 < images.max()
    assert images.min() >= -124
    assert images.max() <= 152


def test_drop_remainder_and_dtype_are_passed_on(tmp_path):
    write("folders", tmp_path)
    dataset = load_dataset("train", tmp_path, 8, 3, tf.bfloat16, True, 1, 16)
    assert [images.dtype for images, _ in dataset] == [tf.bfloat16] * 2


def test_epochs_differ_runs_do_not_and_a_seed_makes_another_run(tmp_path):
    write("classic", tmp_path)

    def epochs(seed):
        dataset = load_dataset("train", tmp_path, None, 4, image_size=16, shuffle_seed=seed)
        return [np.concatenate([images for images, _ in dataset]) for _ in range(2)]

    first, second = epochs(1)
    again, _ = epochs(1)
    other, _ = epochs(2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, other)
    # Sorted, so that only the random parts of pictures differ.
    assert not np.array_equal(np.sort(first, axis=0), np.sort(second, axis=0))


def test_few_samples_are_taken_from_the_whole_data_set(tmp_path):
    write("folders", tmp_path, "val", sorted(cut_out(10), key=lambda one: one.label))
    dataset = load_dataset("validation", tmp_path, 4, 4, image_size=16)
    [[_, labels]] = list(dataset)
    assert sorted(labels.numpy()) == [0, 0, 1, 1]
    np.testing.assert_array_equal(evenly_spread(4, 10), [0, 2, 5, 7])
    np.testing.assert_array_equal(evenly_spread(None, 3), [0, 1, 2])
    np.testing.assert_array_equal(evenly_spread(5, 3), [0, 1, 2])


def test_only_the_master_looks_at_the_files(tmp_path):
    write("tfds", tmp_path)
    asked = []

    def from_master(find):
        asked.append(find)
        return find_files(tmp_path, "train")

    load_dataset("train", "/nowhere", None, 4, image_size=16, from_master=from_master)
    assert len(asked) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dataset_type", ["train", "validation"])
def test_ranks_decode_their_own_samples_and_a_resumed_run_reads_no_epoch_again(
    layout, dataset_type, tmp_path
):
    write(layout, tmp_path, dataset_type)
    pipeline = Pipeline(load_dataset(dataset_type, tmp_path, None, 4, image_size=16))
    [load] = re.findall(r"map\(load\) +\| (\w+)", pipeline.explain(3))
    assert load == "moved"
    assert pipeline.passes_are_independent
    assert pipeline.find_irreproducible(seeded=False) == []


def test_what_is_not_there_is_named_with_the_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match="check --data_dir, or add --synthetic_data"):
        find_files(tmp_path, "train")
    (tmp_path / "train").mkdir()
    with pytest.raises(FileNotFoundError, match="folder of its own"):
        find_files(tmp_path, "train")
    (tmp_path / "train").rmdir()
    write("classic", tmp_path)
    (tmp_path / "train-00001-of-00002").unlink()
    with pytest.raises(FileNotFoundError, match="holds 1 of the 2 files"):
        find_files(tmp_path, "train")


def test_two_versions_of_a_data_set_are_not_mixed(tmp_path):
    write("tfds", tmp_path)
    (tmp_path / "imagenet2012/5.1.0").rename(tmp_path / "imagenet2012/5.0.0")
    write("tfds", tmp_path)
    with pytest.raises(ValueError, match="give --data_dir the folder of one"):
        find_files(tmp_path, "train")


def test_two_data_sets_in_one_folder_are_not_mixed(tmp_path):
    for num_files in (2, 3):
        small_datasets.write_classic_records(tmp_path, "train", cut_out(6), num_files)
    with pytest.raises(ValueError, match=r"train-\*-of-00002, .*train-\*-of-00003: give"):
        find_files(tmp_path, "train")


def test_a_file_that_was_cut_off_is_named(tmp_path):
    write("classic", tmp_path)
    path = tmp_path / "train-00000-of-00002"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="train-00000-of-00002 ends within a record"):
        index_records([path])


def test_a_file_without_a_record_among_others_is_a_warning(tmp_path, caplog):
    write("classic", tmp_path)
    (tmp_path / "train-00001-of-00002").write_bytes(b"")
    find_files(tmp_path, "train")
    assert "1 of 2 files have no records, such as" in caplog.text
    assert "train-00001-of-00002: copy them again" in caplog.text


def test_files_without_a_record_are_named(tmp_path):
    write("classic", tmp_path, pictures=[])
    with pytest.raises(ValueError, match="holds no record in train-00000-of-00002"):
        find_files(tmp_path, "train")


def test_synthetic_images_are_random_and_made_once():
    dataset = synthetic_dataset(70, 10, image_size=8, num_classes=5)
    first, again = ([tuple(map(np.array, batch)) for batch in dataset] for _ in range(2))
    images = np.concatenate([batch[0] for batch in first])
    labels = np.concatenate([batch[1] for batch in first])
    assert images.shape == (70, 8, 8, 3)
    assert len(np.unique(images[:32], axis=0)) == 32
    np.testing.assert_array_equal(images[32:64], images[:32])
    assert set(labels) == set(range(5))
    np.testing.assert_array_equal(images, np.concatenate([batch[0] for batch in again]))
