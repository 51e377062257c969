"""A job that a rank submits knows nothing of that rank, however either was started."""

import pytest
from fitted_lines import OPTIONS, SCRIPT, assert_trained
from ucx_found import needs_ucx

pytestmark = needs_ucx

SUBMIT = "tests/schedulers/scripts/submit_next.py"
FOUR = ["n1", "n1", "n2", "n2"]
BY_SRUN = f"srun --ntasks=2 python {SUBMIT}"
BY_LAUNCHER = f"tarantella {OPTIONS} -n 2 -- {SUBMIT}"


@pytest.mark.parametrize(
    ("ranks", "next_job", "hosts"),
    [
        (BY_SRUN, f"tarantella {OPTIONS} --", FOUR),
        (BY_LAUNCHER, "srun python", FOUR),
        (BY_SRUN, "python", ["n1"]),
    ],
    ids=["srun, tarantella", "tarantella, srun", "srun, python"],
)
def test_a_job_that_a_rank_submits_is_a_job_of_its_own(slurm, tmp_path, ranks, next_job, hosts):
    finished = slurm.run([*ranks.split(), tmp_path, f"{next_job} {SCRIPT}"])
    assert finished.status == 0, finished
    assert_trained(finished.output, hosts)
