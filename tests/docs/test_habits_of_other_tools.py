"""Each row of the tables for users of other tools is run: what stands in it is what is tested."""

import re

import habits
import pytest
from cases import cases
from run_command import ROOT, run_command

import tarantella as tnt

PAGE = ROOT / "docs/howto/come_from_other_tools.md"
NOTHING = "nothing"
SPAN = re.compile(r"`([^`]+)`")


def read_rows():
    """The left cell of each row as text, and the code of its middle cell, one span a line."""
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("|") and not line.startswith(("| there", "| ---")):
            spans = SPAN.findall(cells[1])
            assert spans or cells[1] == NOTHING, line
            rows.append((cells[0].replace("`", ""), join(spans)))
    return rows


def join(spans):
    """Several expressions are a tuple, but for lines that come at different times."""
    return (", " if all(span.startswith("tnt.get_") for span in spans) else "\n").join(spans)


def is_command(code):
    return re.match(r"(\w+=\w+ )?tarantella ", code) is not None


ROWS = read_rows()
GPU = 'tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")'
NOTEBOOK = "notebook_launcher(train, num_processes=2)"
COMMANDS = [row for row in ROWS if is_command(row[1])]
ON_RANKS = [row for row in ROWS if not is_command(row[1]) and row[0] not in (GPU, NOTEBOOK)]
LONG = {
    "tf.nn.compute_average_loss(losses, global_batch_size=6)",
    "tf.nn.scale_regularization_loss(penalty)",
    "hvd.broadcast_variables(model.variables, root_rank=0)",
    "options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA",
    "find_unused_parameters=True",
    "hvd.DistributedOptimizer(optimizer, backward_passes_per_step=2)",
    "dataset.batch(8)",
    "steps_per_epoch = 6 // hvd.size()",
    "BroadcastGlobalVariablesCallback(0)",
    "MetricAverageCallback()",
    "LearningRateWarmupCallback(0.1 * hvd.size(), warmup_epochs=5)",
    'hvd.load_model("model.keras")',
    "hvd.join()",
    "hvd.SyncBatchNormalization()",
    'strategy.reduce("MEAN", loss, axis=None)',
    "CommunicationOptions(implementation=NCCL)",
    "tnt.optimizers.Optimizer(keras.optimizers.SGD(0.1))",
    "model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(6))",
    "if tnt.is_master_rank(): model.evaluate(dataset)",
}
"""Rows whose neighbours stay, or whose code tests of tnt-keras look at in more depth."""


def rows():
    """Rows of several tables with the same code and the same check are one test."""
    first_lines = {}
    for line, code in ON_RANKS:
        first_lines.setdefault((habits.HABITS.get(line), code), line)
    return [pytest.param(line, code, id=line) for (_, code), line in first_lines.items()]


@cases(("line", "code"), [row for row in rows() if row.id not in LONG], thorough=rows())
def test_a_line_does_here_what_it_did_there(line, code, pool_of, tmp_path):
    pool_of(2).run(habits.check, line, code, str(tmp_path))


def test_every_row_is_tested_and_every_test_has_a_row():
    assert habits.HABITS.keys() == {line for line, _ in ON_RANKS}
    assert {line for line, _ in ROWS} >= LONG


def plan_of(command):
    """What the ranks of a command would get, as the launcher prints it."""
    command = command.replace("tarantella ", "tarantella --dry-run ", 1)
    finished = run_command(command.replace("train.py", "models/lenet5/train.py"))
    assert finished.status == 0, finished.messages
    return finished.output


@pytest.mark.parametrize(("line", "command"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_a_command_starts_two_ranks_with_what_the_line_said(line, command):
    plan = plan_of(command)
    for variable in ("TNT_RANK=0", "TNT_RANK=1", "TNT_SIZE=2"):
        assert variable in plan
    expected = {
        "fp16": "TNT_WIRE_DTYPE=float16",
        "HOROVOD_FUSION_THRESHOLD=65536": "TNT_FUSION_THRESHOLD_KB=64",
        "--timeline-filename steps.json": "TNT_TIMELINE=steps.json",
        "--no-gpu": "CUDA_VISIBLE_DEVICES=-1",
    }
    for word, variable in expected.items():
        assert word not in line or variable in plan


def test_each_rank_of_a_host_sees_its_own_gpu():
    assert GPU in {line for line, _ in ROWS}
    plan = plan_of("TNT_GPUS_PER_NODE=2 tarantella -n 2 -- train.py")
    for variable in ("CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"):
        assert variable in plan
    assert plan.count("TF_FORCE_GPU_ALLOW_GROWTH=true") == 2


def test_a_function_of_a_notebook_runs_on_two_ranks():
    code = dict(ROWS)[NOTEBOOK]
    names = {"tnt": tnt, "train": lambda: (tnt.get_rank(), tnt.get_size())}
    assert eval(code, names) == [(0, 2), (1, 2)]
