"""GPI-2's variables and machine file are part of the plan when it is asked for, and only then."""

import os
import stat
import subprocess

import pytest

from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.plan import HostPlan, make_plan
from tnt_launch.planning.plan_text import render_plan
from tnt_launch.planning.rank_environment import MachineFile
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.running.job_files import machine_file_written

JOB = "0123456789abcdef"
GPI2 = (("TNT_TRANSPORT", "gpi2"),)


def plan_of(size=2, environment=None, folder="/some where", job=JOB, exports=GPI2):
    spec = LaunchSpec(program=("a.py",), ranks_per_node=size, exports=exports)
    environment = environment or {}
    settings = read_settings(spec, environment)
    host = HostFacts("alpha", 8, temporary_directory=folder)
    return make_plan(spec, settings, [host], environment, job)


@pytest.mark.parametrize("exports", [(), (("TNT_TRANSPORT", "auto"),), (("TNT_TRANSPORT", "shm"),)])
def test_other_transports_need_nothing_of_it(exports):
    plan = plan_of(exports=exports, environment={"GASPI_RANK": "9"})
    assert plan.hosts[0].machine_file is None
    assert not [name for name in plan.ranks[0].environment if "GASPI" in name or "GPI2" in name]


@pytest.mark.parametrize("size", [1, 3])
def test_every_rank_knows_its_place(size):
    plan = plan_of(size)
    for rank in plan.ranks:
        found = {k: v for k, v in rank.environment.items() if k.startswith("GASPI_")}
        assert found == {
            "GASPI_RANK": str(rank.rank),
            "GASPI_NRANKS": str(size),
            "GASPI_SOCKET": str(rank.rank),
            "GASPI_MFILE": f"/some where/tnt-{JOB}-machines-0",
        }
    assert plan.hosts[0].machine_file == MachineFile(
        f"/some where/tnt-{JOB}-machines-0", ("localhost",) * size
    )


def test_the_environment_asks_as_well_as_the_option():
    plan = plan_of(exports=(), environment={"TNT_TRANSPORT": "gpi2"})
    assert plan.hosts[0].machine_file is not None


def test_all_ranks_of_a_job_use_the_same_ports_and_jobs_use_different_ones():
    ports = {rank.environment["TNT_GPI2_PORT"] for rank in plan_of(4).ranks}
    assert len(ports) == 1
    assert 20000 <= int(ports.pop()) < 31744
    assert {plan_of(job=f"{i:016x}").ranks[0].environment["TNT_GPI2_PORT"] for i in (0, 7)} == {
        "20000",
        "20007",
    }


def test_ports_that_the_user_chose_are_kept():
    plan = plan_of(environment={"TNT_GPI2_PORT": "15000"})
    assert plan.ranks[0].environment["TNT_GPI2_PORT"] == "15000"


def host_with(file):
    return HostPlan("alpha", "/", (), file)


def test_the_file_exists_during_the_job_and_only_for_this_user(tmp_path):
    file = MachineFile(str(tmp_path / "machines"), ("alpha", "alpha", "beta"))
    with machine_file_written(host_with(file)):
        assert (tmp_path / "machines").read_text() == "alpha\nalpha\nbeta\n"
        assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o600
    assert not os.path.exists(file.path)


def test_the_file_is_removed_after_a_failure(tmp_path):
    file = MachineFile(str(tmp_path / "machines"), ("alpha",))
    with pytest.raises(ZeroDivisionError), machine_file_written(host_with(file)):
        raise ZeroDivisionError
    assert not os.path.exists(file.path)


def test_a_file_of_somebody_else_is_not_touched(tmp_path):
    path = tmp_path / "machines"
    path.write_text("theirs")
    plan = host_with(MachineFile(str(path), ("alpha",)))
    with pytest.raises(FileExistsError), machine_file_written(plan):
        pass
    assert path.read_text() == "theirs"


def test_no_file_is_written_without_need():
    with machine_file_written(host_with(None)):
        pass


def test_a_dry_run_shows_how_to_make_the_file(tmp_path):
    text = render_plan(plan_of(folder=str(tmp_path)))
    (command,) = [line for line in text.splitlines() if line.startswith("printf")]
    subprocess.run(["sh", "-c", command], check=True, timeout=30)
    assert (tmp_path / f"tnt-{JOB}-machines-0").read_text() == "localhost\nlocalhost\n"
