"""The scripts of other tools reach what the page says, each with one process of that tool."""

import re
import sys
import types

import keras
import pytest
from page_commands import run_script
from rank_pools import ENVIRONMENT
from run_command import ROOT

from tnt_comm.testing import observe_ranks

PAGE = ROOT / "docs/tutorials/migration.md"
RESULT = re.compile(r"^validation loss ([\d.]+), accuracy ([\d.]+)$", re.MULTILINE)


def horovod_with_one_process():
    """What the script uses of Horovod, which has no release for this TensorFlow."""
    hvd = types.ModuleType("horovod.tensorflow.keras")
    hvd.init = lambda: None
    hvd.rank = hvd.local_rank = lambda: 0
    hvd.size = lambda: 1
    hvd.DistributedOptimizer = lambda optimizer: optimizer
    hvd.callbacks = types.SimpleNamespace(
        BroadcastGlobalVariablesCallback=lambda root_rank: keras.callbacks.Callback(),
        MetricAverageCallback=keras.callbacks.Callback,
    )
    return hvd


def run_beside_horovod(script):
    for module in ("horovod", "horovod.tensorflow"):
        sys.modules[module] = types.ModuleType(module)
    sys.modules["horovod.tensorflow.keras"] = horovod_with_one_process()
    run_script(script, [])


@pytest.mark.parametrize("name", ["with_horovod.py", "with_multi_worker_mirrored.py"])
def test_a_script_of_another_tool_reaches_what_the_page_shows(name, preloaded):
    script = f"examples/tutorials/migration/{name}"
    [report] = observe_ranks(run_beside_horovod, 1, script, env=ENVIRONMENT, preloaded=preloaded)
    assert not report.has_failed, report.full_text()
    [shown] = RESULT.findall(PAGE.read_text(encoding="utf-8"))
    [found] = RESULT.findall(report.output)
    assert [*map(float, found)] == pytest.approx([*map(float, shown)], abs=0.05)
