"""The two scripts differ in two lines, and the data are what the network was made for."""

import difflib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))  # as Python does for a script that is run from there

import lenet5_data as data  # noqa: E402


def load_script(name):
    specification = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_distributed_script_adds_an_import_and_a_wrap_and_changes_nothing_else():
    serial = (FOLDER / "train_serial.py").read_text(encoding="utf-8").splitlines()
    distributed = (FOLDER / "train.py").read_text(encoding="utf-8").splitlines()
    differing = [line for line in difflib.ndiff(serial, distributed) if line[0] in "+-?"]
    assert differing == ["+ import tarantella as tnt", "+     model = tnt.Model(model)"]


def test_the_readme_shows_the_lines_that_differ():
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "\n+import tarantella as tnt\n" in readme
    assert "\n+    model = tnt.Model(model)\n" in readme


def test_digits_are_split_into_1500_and_297_images_of_32_by_32():
    train, test = data.load_digits()
    assert train.images.shape == (1500, 32, 32, 1)
    assert test.images.shape == (297, 32, 32, 1)
    assert train.images.dtype == np.float32
    assert set(test.labels) == set(range(10))
    assert (train.images.min(), train.images.max()) == (0.0, 1.0)


def test_every_pixel_of_a_digit_becomes_a_square_of_four_by_four():
    image = data.load_digits()[0].images[0, :, :, 0]
    small = image[::4, ::4]
    rows, columns = np.indices((32, 32)) // 4
    np.testing.assert_array_equal(image, small[rows, columns])


def test_no_image_is_in_both_splits():
    train, test = data.load_digits()
    both = np.concatenate([train.images, test.images]).reshape(1797, -1)
    assert len(np.unique(both, axis=0)) == 1797


def test_mnist_images_get_a_border_of_two_pixels():
    pixels = np.full((3, 28, 28), 255, dtype=np.uint8)
    images, labels = data.add_border(pixels, np.array([1, 2, 3], dtype=np.uint8))
    assert images.shape == (3, 32, 32, 1)
    assert images.sum() == 3 * 28 * 28
    assert images[:, 2:30, 2:30].min() == 1.0
    assert labels.dtype == np.int64


def test_a_failing_download_ends_with_advice_and_its_own_exit_status(monkeypatch, capsys):
    import keras

    def fail():
        raise Exception("URL fetch failure")

    monkeypatch.setattr(keras.datasets.mnist, "load_data", fail)
    with pytest.raises(SystemExit) as ending:
        data.load_mnist()
    assert ending.value.code == data.NO_NETWORK
    assert "Use --data digits" in capsys.readouterr().out


def test_batches_have_the_asked_size_and_the_seed_fixes_their_order():
    first, again, other = (data.make_datasets("digits", 64, seed)[0] for seed in (1, 1, 2))
    first_labels, again_labels, other_labels = (
        next(iter(dataset))[1].numpy() for dataset in (first, again, other)
    )
    assert len(first_labels) == 64
    np.testing.assert_array_equal(first_labels, again_labels)
    assert (first_labels != other_labels).any()


def test_the_model_has_the_layer_sizes_of_the_paper():
    model = load_script("train_serial").build_model()
    shapes = [tuple(layer.output.shape[1:]) for layer in model.layers]
    assert shapes == [
        (28, 28, 6),
        (14, 14, 6),
        (10, 10, 16),
        (5, 5, 16),
        (1, 1, 120),
        (120,),
        (84,),
        (10,),
    ]
