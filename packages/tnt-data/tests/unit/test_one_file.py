"""Everything that is known of one transformation of tf.data is in one place."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import tensorflow as tf
from simulated_ranks import PICK, assert_ranks_share_serial_batches

import tnt_data
from tnt_data.description.transformation import Kind
from tnt_data.tensorflow_private import InspectedDataset
from tnt_data.transformations import catalogue
from tnt_data.transformations.catalogue import CATALOGUE
from tnt_data.transformations.dataset_class import Changes, DatasetClass, Inputs

Data = tf.data.Dataset
FOLDER = Path(tnt_data.__file__).parent


def modules_with_classes() -> list[ModuleType]:
    modules = [value for value in vars(catalogue).values() if isinstance(value, ModuleType)]
    return [module for module in modules if hasattr(module, "CLASSES")]


@pytest.mark.parametrize("class_name", CATALOGUE)
def test_class_is_named_in_one_source_file(class_name: str) -> None:
    # In functions, operations of graphs are compared, which have public names like `tf.raw_ops`.
    paths = [path for path in FOLDER.rglob("*.py") if path.parent.name != "functions"]
    modules = [path.name for path in paths if f'"{class_name}"' in path.read_text()]
    assert len(modules) == 1


def test_every_module_is_in_the_catalogue_and_no_class_is_known_twice() -> None:
    modules = modules_with_classes()
    files = {path for path in FOLDER.rglob("*.py") if "\nCLASSES = (" in path.read_text()}
    assert {Path(str(module.__file__)) for module in modules} == files
    assert len(CATALOGUE) == sum(len(module.CLASSES) for module in modules)


class Reversed(tf.data.Dataset):  # type: ignore[misc]
    """Pairs of neighbours the other way round: a transformation that tf.data does not have."""

    def __init__(self, source: tf.data.Dataset) -> None:
        self.source = source
        self.reversed = source.batch(2).map(lambda pair: pair[::-1]).unbatch()
        super().__init__(self.reversed._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self.source]

    @property
    def element_spec(self) -> tf.TypeSpec:
        return self.reversed.element_spec


def make() -> tf.data.Dataset:
    return Reversed(Data.range(11).shuffle(11)).map(lambda x: x + 1).batch(4)


def make_serial() -> tf.data.Dataset:
    return Reversed(Data.range(11).shuffle(11, seed=42)).map(lambda x: x + 1).batch(4)


def test_class_that_is_not_known_stays_as_it_is() -> None:
    text = tnt_data.explain(make(), 2)
    assert "Reversed()" in text
    assert "shuffle(11) has no seed and cannot be rebuilt with one" in text


def test_record_in_one_place_is_all_that_another_transformation_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rebuild(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> Reversed:
        return Reversed(inputs[0])

    record = DatasetClass(
        "Reversed",
        "reverse",
        Kind.ARRANGE,
        rebuild,
        details=lambda inspected: ["2"],
    )
    monkeypatch.setitem(CATALOGUE, record.class_name, record)
    text = tnt_data.explain(make(), 2)
    assert "cannot be rebuilt" not in text
    lines = [line.split(" | ") for line in text.splitlines() if " | " in line]
    done = {row[0].strip(): row[1].strip() for row in lines}
    assert done["shuffle(11)"] == "rebuilt"
    assert done["reverse(2)"] == "kept"
    assert done["map(<lambda>)"] == "moved"
    assert tnt_data.describe_order(make()) == "shuffle(11), reverse(2), batch(4)"
    assert_ranks_share_serial_batches(make, make_serial, 3, way=PICK, epochs=2)
