"""The batch scripts of the pages on SLURM run as they stand there."""

import pytest
from fitted_lines import assert_trained
from run_command import ROOT
from ucx_found import needs_ucx

pytestmark = needs_ucx

FIT_LINE = ROOT / "tests/schedulers/scripts/fit_line.py"
WITHOUT_ARGUMENTS = f"""
import runpy, sys
del sys.argv[1:]
runpy.run_path({str(FIT_LINE)!r}, run_name="__main__")
"""


SCRIPTS = {
    "docs/howto/slurm/launcher.sh": "train.py",
    "docs/howto/slurm/gpus.sh": "train.py",
    "docs/howto/slurm/direct.sh": "train.py",
    "examples/tutorials/cluster_job.sh": "examples/tutorials/cluster_job.py",
}
"""What each starts."""


@pytest.mark.parametrize(("script", "training"), SCRIPTS.items(), ids=SCRIPTS)
def test_a_batch_script_trains_four_ranks_on_two_nodes(slurm, tmp_path, script, training):
    (tmp_path / training).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / training).write_text(WITHOUT_ARGUMENTS)
    lines = (ROOT / script).read_text("utf-8").splitlines()
    options = [line.removeprefix("#SBATCH ").split() for line in lines if "#SBATCH" in line]
    given = [option for words in options for option in words if "--time" not in option]
    job = slurm.sbatch("\n".join(lines[1:]), f"--chdir={tmp_path}", *given)
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, ["n1", "n1", "n2", "n2"])
