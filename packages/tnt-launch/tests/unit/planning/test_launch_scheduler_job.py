"""On which hosts a launcher runs a job, by what is around it, and with how many ranks."""

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning.command_line import make_spec, parse_arguments
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.options import make_parser
from tnt_launch.planning.scheduler_job import forget_other_job, in_scheduler_job
from tnt_launch.planning.spec import SSH, Rendezvous

JOB = {
    "SLURM_JOB_ID": "11",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_NTASKS": "4",
    "SLURM_TASKS_PER_NODE": "2(x2)",
}
GRID_ENGINE = {"PE_HOSTFILE": "/spool/pe_hostfile"}
TASK = JOB | {
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "1",
}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
BOTH = (HostSlots("n1", 2), HostSlots("n2", 2))


def spec_of(options, environment):
    spec = make_spec(parse_arguments(make_parser(), [*options.split(), "a.py"]), environment)
    return in_scheduler_job(spec, environment, lambda _: "n1 2 q u\nn2 2 q u\n")


def error_of(options, environment):
    with pytest.raises(LaunchError) as error:
        spec_of(options, environment)
    return str(error.value)


def test_without_a_scheduler_nothing_changes():
    spec = spec_of("-n 2", {})
    assert (spec.hosts, spec.ranks_per_node, spec.ssh) == ((), 2, SSH)


def test_in_an_allocation_the_hosts_are_its_own_and_reached_by_its_command():
    spec = spec_of("", GRID_ENGINE)
    assert spec.hosts == BOTH
    assert spec.ssh == ("qrsh", "-inherit")
    assert spec_of("", JOB).allocation.is_one_step


def test_one_node_is_one_host_of_an_allocation():
    assert spec_of("--nnodes 1 --nproc-per-node 2", JOB).hosts == BOTH[:1]


def test_the_users_own_command_wins():
    spec = spec_of("--ssh rsh", JOB)
    assert (spec.hosts, spec.ssh, spec.allocation) == (BOTH, ("rsh",), None)


def test_hosts_that_the_user_names_win_and_a_note_tells():
    spec = spec_of("-H other", JOB)
    assert spec.hosts == (HostSlots("other"),)
    assert spec.allocation is None
    assert spec.notes == ("the hosts are those of the command line, not those of the SLURM job",)


def test_more_ranks_than_tasks_are_an_error_with_both_numbers():
    text = error_of("-n 8", JOB)
    assert "-n 8 asks for 8 ranks on each host, 16 on 2 in all" in text
    assert "the SLURM job has 4 tasks there, 2 on n1" in text


def test_fewer_ranks_than_tasks_may_be_asked_for():
    assert spec_of("-n 1", JOB).ranks_per_node == 1


@pytest.mark.parametrize(
    ("options", "environment", "ranks_per_node"),
    [
        ("-np 2", {}, 2),
        ("--num-processes 3", {}, 3),
        ("-np 2", JOB, 1),
        ("-np 4", JOB | {"SLURM_TASKS_PER_NODE": "3,1"}, None),
        ("-np 6 -H a,b,c", {}, 2),
        ("-np 4 --nnodes 2 --node-rank 1 --rendezvous a:1", {}, 2),
    ],
)
def test_all_ranks_are_divided_among_the_hosts(options, environment, ranks_per_node):
    assert spec_of(options, environment).ranks_per_node == ranks_per_node


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("-np 3", "-np 3 cannot be divided evenly among 2 hosts"),
        ("-np 0", "-np 0 cannot be divided evenly"),
        ("-np 8", "-n 4 asks for 4 ranks on each host, 8 on 2 in all"),
        ("-np 2 -n 2", "Give one of them"),
        ("-N 3", "-N 3 needs that many of the hosts"),
        ("-N 0", "-N 0 needs"),
    ],
)
def test_numbers_that_do_not_fit_the_allocation_are_refused(options, why):
    assert why in error_of(options, JOB)


def test_some_of_the_hosts_may_be_asked_for():
    assert spec_of("-N 1", JOB).hosts == BOTH[:1]
    assert spec_of("-N 2 -H a,b,c", {}).hosts == (HostSlots("a"), HostSlots("b"))
    assert spec_of("-N 1", {}).hosts == ()


def test_launchers_that_srun_has_started_one_on_each_host_meet():
    spec = spec_of("-n 2", TASK)
    assert spec.rendezvous == Rendezvous(2, 1, "n1", spec.rendezvous.port)
    assert 20000 <= spec.rendezvous.port < 32768
    assert spec.hosts == ()


def test_steps_and_requeued_jobs_meet_at_ports_of_their_own():
    lives = [{}, {"SLURM_STEP_ID": "1"}, {"SLURM_RESTART_COUNT": "1"}, {"SLURM_JOB_ID": "12"}]
    ports = [spec_of("", TASK | life).rendezvous.port for life in lives]
    assert len(set(ports)) == len(lives)
    assert spec_of("", TASK | {"SLURM_NODEID": "0"}).rendezvous.port == ports[0]


def test_a_single_task_of_srun_is_this_host_alone():
    alone = TASK | {"SLURM_STEP_NODELIST": "n2", "SLURM_STEP_TASKS_PER_NODE": "1"}
    spec = spec_of("-n 2", alone | {"SLURM_NODEID": "0"})
    assert (spec.hosts, spec.rendezvous, spec.ranks_per_node) == ((), None, 2)


@pytest.mark.parametrize(
    ("environment", "options", "who"),
    [
        (TASK | {"SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, "", "srun has started 4 launchers on 2"),
        (TASK, "-H a,b", "srun has started 2 launchers"),
        (JOB | OPEN_MPI, "", "mpirun has started 4 launchers"),
        (HYDRA, "-H a", "mpirun has started 2 launchers"),
        ({"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}, "", "torchrun has started 2 launchers"),
    ],
)
def test_several_launchers_that_do_not_meet_are_told_what_to_type(environment, options, who):
    text = error_of(options, environment)
    assert who in text
    assert "python SCRIPT" in text
    assert "tarantella [options] -- SCRIPT" in text


def test_launchers_that_were_told_where_to_meet_do():
    rendezvous = "--nnodes 2 --node-rank 1 --rendezvous n1:29400"
    assert spec_of(rendezvous, JOB | OPEN_MPI).rendezvous == Rendezvous(2, 1, "n1", 29400)


@pytest.mark.parametrize("variable", ["TNT_RANK", "TNT_JOB_ID"])
def test_what_processes_of_a_job_start_is_on_their_host(variable):
    spec = spec_of("-n 2", TASK | {variable: "1"})
    assert (spec.hosts, spec.rendezvous) == ((), None)


def test_a_launcher_that_a_rank_starts_says_that_it_uses_one_host():
    spec = spec_of("-n 2", JOB | {"TNT_RANK": "0", "TNT_JOB_ID": "1"})
    assert spec.hosts == ()
    [warning] = spec.warnings
    assert "of the 2 hosts of the SLURM job only this one is used" in warning
    assert "unset TNT_RANK TNT_JOB_ID" in warning


@pytest.mark.parametrize("job_of_rank", ["SLURM_JOB_ID=10", ""], ids=["in a job", "in none"])
def test_a_launcher_in_a_job_that_a_rank_has_submitted_uses_all_hosts(job_of_rank):
    of_rank = {"TNT_RANK": "0", "TNT_JOB_ID": "1", "TNT_RENDEZVOUS": "n9:20000"}
    environment = JOB | of_rank | {"TNT_SCHEDULER_JOB": job_of_rank, "TNT_TIMEOUT_S": "9"}
    forget_other_job(environment, "11.0")
    assert environment == JOB | {"TNT_TIMEOUT_S": "9"}
    assert spec_of("", environment).hosts == BOTH


@pytest.mark.parametrize("job", [JOB, {}], ids=["in a job", "in none"])
def test_a_launcher_in_the_job_of_its_rank_forgets_nothing(job):
    environment = job | {"TNT_RANK": "0", "TNT_JOB_ID": "1", "TNT_SCHEDULER_JOB": "SLURM_JOB_ID=11"}
    before = dict(environment)
    forget_other_job(environment, "11.0")
    assert environment == before


def test_a_launcher_in_a_batch_script_forgets_the_step_that_has_submitted_it():
    environment = dict(TASK)
    forget_other_job(environment, "11.batch")
    assert spec_of("", environment).hosts == BOTH
    assert not any(name.startswith("SLURM_STEP") for name in environment)
