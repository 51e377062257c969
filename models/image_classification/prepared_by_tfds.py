"""ImageNet as tensorflow-datasets itself prepares it, of a few pictures. For a test."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from models.image_classification.small_datasets import SmallPicture


def prepare(tfds: Any, folder: Path, pictures: Sequence[SmallPicture]) -> None:
    """Write training and validation data into `folder/imagenet2012/5.1.0`, by its own code. Local.

    Args:
        tfds: The module.
        folder: For data sets.
        pictures: Of both splits.
    """

    class Imagenet2012(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("5.1.0")

        def _info(self) -> Any:
            features = {
                "image": tfds.features.Image(encoding_format="jpeg"),
                "label": tfds.features.ClassLabel(num_classes=1000),
                "file_name": tfds.features.Text(),
            }
            return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
            return {"train": self._generate_examples(), "validation": self._generate_examples()}

        def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
            for number, picture in enumerate(pictures):
                name = f"{number:04d}.JPEG"
                image = io.BytesIO(picture.encoded)
                yield name, {"image": image, "label": picture.label, "file_name": name}

    Imagenet2012(data_dir=str(folder)).download_and_prepare()
