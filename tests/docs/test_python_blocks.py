"""Every Python block of every page runs: blocks of a page one after the other, in one namespace.

Pages show parts of a script and leave out what each script has. `GIVEN` says what that is.
"""

import re

import pytest
from run_command import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATTERNS = ["*.md", "docs/**/*.md", "packages/*/*.md", "models/**/*.md", "benchmarks/**/*.md"]

RUN_ELSEWHERE = {
    "docs/explanation/summation_order.md": "tests/docs/test_summation_order.py",
    "docs/howto/use_with_other_libraries.md": "tests/docs/test_other_libraries.py",
    "packages/tnt-data/README.md": "packages/tnt-data/tests/unit/test_readme.py",
}
"""Pages whose blocks another test runs, or whose scripts, and looks at the results."""

# Keras 3 hands variables to numpy in a way that numpy 2 warns about.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

IMPORTS = """
import keras
import numpy as np
import tensorflow as tf
import tarantella as tnt
"""
PLAIN_MODEL = f"""{IMPORTS}
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
samples = (np.ones((12, 4), "float32"), np.zeros((12, 2), "float32"))
"""
TRAINED_MODEL = f"""{PLAIN_MODEL}
training_data = tf.data.Dataset.from_tensor_slices(samples).batch(6)
model = tnt.Model(model)
model.compile(optimizer="adam", loss="mse")
history = model.fit(training_data, verbose=0)
def write_report(history):
    assert len(history.history["loss"]) == 1
"""
TRANSLATION = f"""{IMPORTS}
from models.transformer.data.records import write_records
from models.transformer.data.synthetic import make_synthetic_pairs
data_dir, vocabulary = "translations", None
write_records(make_synthetic_pairs(8, vocab_size=9, max_length=6), data_dir, "train", num_shards=1)
inputs, targets = keras.Input((None,), dtype="int64"), keras.Input((None,), dtype="int64")
model = tnt.Model(keras.Model([inputs, targets], keras.layers.Embedding(9, 9)(targets)))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
"""
GIVEN = {
    "README.md": PLAIN_MODEL,
    "docs/howto/continue_a_killed_run.md": f"import collections\n{TRAINED_MODEL}",
    "docs/howto/survive_time_limits.md": f"import sys\n{TRAINED_MODEL}",
    "docs/howto/run_on_more_ranks.md": f"{IMPORTS}download, read_settings = str, dict",
    "docs/howto/save_and_load.md": TRAINED_MODEL,
    "docs/howto/use_callbacks.md": f"import time\n{TRAINED_MODEL}",
    "docs/howto/use_the_whole_batch.md": IMPORTS,
    "docs/howto/write_a_train_step.md": IMPORTS,
    "docs/index.md": f"{PLAIN_MODEL}x, y, build_model = *samples, lambda: model",
    "docs/tutorials/quick_start.md": PLAIN_MODEL,
    "models/transformer/DATA.md": TRANSLATION,
    "packages/tarantella/README.md": PLAIN_MODEL,
}
"""What the blocks of a page take for granted; nothing for pages that are not listed."""


def read_blocks():
    """Sources of the blocks by page, with empty lines above so that line numbers are the page's."""
    pages = {}
    for path in sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern)}):
        text = path.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            above = "\n" * text.count("\n", 0, match.start(1))
            pages.setdefault(str(path.relative_to(ROOT)), []).append(above + match[1])
    return pages


BLOCKS = read_blocks()


@pytest.fixture
def run_blocks(tmp_path, monkeypatch):
    """A function that runs all blocks of a page in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(page):
        names = {"__name__": "__main__"}
        exec(GIVEN.get(page, ""), names)
        for block in BLOCKS[page]:
            exec(compile(block, ROOT / page, "exec"), names)

    return run


@pytest.mark.parametrize("page", sorted({*BLOCKS} - {*RUN_ELSEWHERE, "docs/howto/feed_data.md"}))
def test_the_blocks_of_a_page_run(page, run_blocks):
    run_blocks(page)


def test_the_page_about_feeding_data_shows_what_its_blocks_print(run_blocks, capsys):
    run_blocks("docs/howto/feed_data.md")
    output = capsys.readouterr().out
    assert re.search(r"map\(load\) +\| moved", output)
    assert "22 samples of each batch on rank 0 of 3" in output
    assert "0 [[0, 3], [5, 8]]\n1 [[1, 4], [6, 9]]\n2 [[2], [7]]" in output


@pytest.mark.parametrize(("page", "test"), RUN_ELSEWHERE.items())
def test_a_page_that_is_run_elsewhere_is(page, test):
    assert page in BLOCKS
    source = (ROOT / test).read_text(encoding="utf-8")
    assert page.rpartition("/")[2] in source
    assert "exec(" in source or "run_command(" in source


def test_what_is_given_is_for_pages_with_blocks():
    assert {*GIVEN} <= {*BLOCKS}
