"""Find the pictures of a data set that cannot be decoded, as after an interrupted copy.

    python models/image_classification/damaged_pictures.py --data_dir=/data/imagenet

An error in the middle of a training does not say which picture it was: TensorFlow reads many at
once. This reads them all, and says.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it runs from anywhere

from models.shared.training_flags import path

if TYPE_CHECKING:
    from models.image_classification.layouts import FoundFiles


_LABEL = re.compile(r"a picture has label -?\d+, and the network has labels from 0 to \d+")


@contextlib.contextmanager
def told_how_to_find_them(data_dir: Path | None) -> Iterator[None]:
    """Say what is wrong with data that end a training, and how to find or mend them. Local.

    Args:
        data_dir: Of the pictures; None if they are not read from files.

    Raises:
        ValueError: Instead of TensorFlow's errors.
    """
    import tensorflow as tf

    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        if data_dir is None or "IteratorGetNext" not in str(error):
            raise
        if label := _LABEL.search(str(error)):
            raise ValueError(
                f"{data_dir}: {label[0]}. Give the --num_classes of the data, or prepare them "
                "again (labels of classic records count from 1)."
            ) from None
        command = shlex.join(["python", __file__, f"--data_dir={data_dir}"])
        raise ValueError(
            f"A picture in {data_dir} is damaged. This names its file: {command}"
        ) from error


def find_damaged(data_dir: Path, split: str) -> Iterator[str]:
    """Name each picture of a split that cannot be decoded. Local.

    Args:
        data_dir: Folder of the data set, in one of the layouts of `layouts`.
        split: `train` or `validation`.

    Raises:
        FileNotFoundError: If the split is not there.
    """
    import tensorflow as tf

    from models.image_classification.layouts import find_files, open_source

    found = find_files(data_dir, split)
    source = open_source(found)

    def decode(*sample: Any) -> tf.Tensor:
        return tf.shape(tf.image.decode_jpeg(source.read(*sample).encoded, channels=3))

    samples = tf.data.Dataset.from_tensor_slices(source.samples)
    shapes = iter(samples.map(decode, num_parallel_calls=tf.data.AUTOTUNE))
    for number in range(source.num_samples):
        try:
            next(shapes)
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError):
            yield _name_of(found, number)


def _name_of(found: FoundFiles, number: int) -> str:
    index = found.records
    if index is None:
        return found.paths[number]
    file, offset = index.paths[index.files[number]], index.offsets[number]
    return f"{file}: the record at byte {offset}"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the names; the exit status is 1 if there are any."""
    parser = argparse.ArgumentParser(
        description="Name the pictures of a data set that cannot be decoded.", allow_abbrev=False
    )
    parser.add_argument("--data_dir", type=path, required=True, help="in one of three layouts")
    data_dir = parser.parse_args(argv).data_dir
    num_damaged = 0
    for split in ("train", "validation"):
        for name in find_damaged(data_dir, split):
            num_damaged += 1
            print(name, flush=True)
    print(f"{num_damaged} damaged pictures", file=sys.stderr)
    sys.exit(num_damaged > 0)


if __name__ == "__main__":
    main()
