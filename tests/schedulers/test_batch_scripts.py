"""The batch scripts of the page on SLURM run as they stand there."""

import pytest
from fitted_lines import assert_trained
from run_command import ROOT
from ucx_found import needs_ucx

pytestmark = needs_ucx

FOLDER = ROOT / "docs/howto/slurm"
TRAINING = ROOT / "tests/schedulers/scripts/fit_line.py"


@pytest.mark.parametrize("name", ["launcher.sh", "gpus.sh", "direct.sh"])
def test_a_batch_script_trains_four_ranks_on_two_nodes(slurm, tmp_path, name):
    (tmp_path / "train.py").symlink_to(TRAINING)
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    options = [line.removeprefix("#SBATCH ").split() for line in lines if "#SBATCH" in line]
    given = [option for words in options for option in words if "--time" not in option]
    job = slurm.sbatch("\n".join(lines[1:]), f"--chdir={tmp_path}", *given)
    assert job.result() == ("COMPLETED", "0:0"), job.output
    assert_trained(job.output, ["n1", "n1", "n2", "n2"])
