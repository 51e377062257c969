"""A picture that cannot be decoded ends the training with the command that names its file."""

import re
import shlex

import pytest
import tensorflow as tf
from run_command import ROOT, run_command

from models.image_classification import damaged_pictures, small_datasets
from models.image_classification.damaged_pictures import find_damaged, main
from models.image_classification.datasets import label_of_network
from models.image_classification.flags import parse_arguments
from models.image_classification.small_datasets import SmallPicture, cut_out
from models.image_classification.train_imagenet_main import train

WHOLE = cut_out(5)
CUT = WHOLE[0].encoded[:300]
TRAINING = [
    "--model_arch=resnet8",
    "--image_size=16",
    "--num_classes=2",
    "--batch_size=2",
    "--train_num_samples=6",
    "--val_num_samples=2",
    "--train_epochs=1",
    "--verbose=0",
]


def write_folders(root):
    """Write class folders in which three pictures of six are damaged."""
    for split in ("train", "val"):
        small_datasets.write_class_folders(root / split, WHOLE)
    damaged = [root / "train/china" / f"{number:04d}.JPEG" for number in (0, 2, 9)]
    for path, content in zip(damaged, (CUT, b"", b"no picture"), strict=True):
        path.write_bytes(content)
    return damaged


def test_every_damaged_picture_of_class_folders_is_named(tmp_path, capsys):
    damaged = write_folders(tmp_path)
    with pytest.raises(SystemExit) as status:
        main([f"--data_dir={tmp_path}"])
    assert status.value.code == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == list(map(str, damaged))
    assert printed.err == "3 damaged pictures\n"


@pytest.mark.parametrize("layout", ["classic", "tfds"])
def test_damaged_pictures_in_records_are_named_by_file_and_place(layout, tmp_path):
    write = getattr(small_datasets, f"write_{layout}_records")
    write(tmp_path, "train", [*WHOLE, SmallPicture(CUT, 1)])
    [name] = find_damaged(tmp_path, "train")
    path, _, offset = name.partition(": the record at byte ")
    assert "-00001-of-00002" in path
    with open(path, "rb") as file:
        file.seek(int(offset))
        record = file.read()
    assert CUT in record
    assert WHOLE[3].encoded not in record


def test_a_record_that_was_changed_is_named(tmp_path):
    small_datasets.write_classic_records(tmp_path, "train", WHOLE, num_files=1)
    path = tmp_path / "train-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    [name] = find_damaged(tmp_path, "train")
    assert name.startswith(str(path))


def test_nothing_is_printed_and_the_status_is_0_if_all_is_well(tmp_path, capsys):
    for split in ("train", "val"):
        small_datasets.write_class_folders(tmp_path / split, WHOLE)
    with pytest.raises(SystemExit) as status:
        main([f"--data_dir={tmp_path}"])
    assert status.value.code == 0
    assert capsys.readouterr().out == ""


def test_the_trainer_says_which_command_names_the_picture_and_it_does(tmp_path, capsys):
    damaged = write_folders(tmp_path)
    arguments = parse_arguments([*TRAINING, f"--data_dir={tmp_path}", "--distribute=none"])
    with pytest.raises(ValueError, match="is damaged") as error:
        train(arguments)
    program, script, *flags = shlex.split(re.search("python .*", str(error.value))[0])
    assert program == "python"
    assert (ROOT / script).samefile(damaged_pictures.__file__)
    with pytest.raises(SystemExit) as status:
        main(flags)
    assert status.value.code == 1
    assert capsys.readouterr().out.splitlines() == list(map(str, damaged))


@pytest.mark.parametrize("label", [-1, 2, 899])
def test_a_label_that_the_network_lacks_is_an_error(label):
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=f"label {label}, and the network has labels from 0 to 1",
    ):
        label_of_network(tf.constant(label), num_classes=2)


@pytest.mark.thorough
@pytest.mark.parametrize("label", [-1, 2, 899])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_label_that_the_network_lacks_ends_the_training(label, smoothing, tmp_path):
    """Also with smoothed labels, whose loss would be a number that looks right."""
    pictures = [*WHOLE, SmallPicture(WHOLE[0].encoded, label)]
    for split in ("train", "validation"):
        small_datasets.write_classic_records(tmp_path, split, pictures)
    flags = [f"--data_dir={tmp_path}", "--distribute=none", f"--label_smoothing={smoothing}"]
    with pytest.raises(ValueError, match=f"label {label}, and the network has labels from 0 to 1"):
        train(parse_arguments([*TRAINING, *flags]))


@pytest.mark.thorough
def test_ranks_say_so_too_and_all_end(tmp_path):
    write_folders(tmp_path)
    trainer = "models/image_classification/train_imagenet_main.py"
    flags = shlex.join([*TRAINING, f"--data_dir={tmp_path}"])
    finished = run_command(f"tarantella -n 2 -- {trainer} {flags}")
    assert finished.status == 1, finished.messages
    assert "is damaged. This names its file" in finished.messages
