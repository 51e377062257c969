"""Processes of a start that have ended are told by their absence from a made-up /proc."""

import os
import time

import pytest

from tnt_comm.start import neighbours
from tnt_comm.start.place import Place
from tnt_comm.start.processes import variables_of

OWN_PARENT, OWN_STARTER = os.getppid(), 800
# Of each starter: what its processes have in common, the number on the host, that among all.
VARIABLES = {
    "slurm": ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, "SLURM_LOCALID", "SLURM_PROCID"),
    "open mpi": (
        {"PMIX_NAMESPACE": "prterun-n1-7@1"},
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
    ),
    "pmi": ({"PMI_SIZE": "7", "MPI_LOCALNRANKS": "3"}, "MPI_LOCALRANKID", "PMI_RANK"),
    "torchrun": (
        {"TORCHELASTIC_RUN_ID": "7", "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "0"},
        "LOCAL_RANK",
        "RANK",
    ),
}


class Proc:
    """A folder like /proc, in which this process is below a starter."""

    def __init__(self, folder, starter, name="hydra_pmi_proxy", pid=OWN_STARTER):
        self.folder, self.of_others = folder, set()
        self.common, self.local_rank, self.rank = VARIABLES[starter]
        self.add(OWN_PARENT, parent=pid, variables=self.common)  # a shell, say
        self.add(pid, parent=min(pid - 1, 1), name=name)

    def add(self, pid, parent=1, name="python", variables=None):
        """Add a process."""
        process = self.folder / str(pid)
        process.mkdir()
        (process / "stat").write_text(f"{pid} ({name}) S {parent} 7 7\n")
        texts = [f"{name}={text}\0" for name, text in {"A": "b", **(variables or {})}.items()]
        (process / "environ").write_text("".join(texts))

    def add_ranks(self, numbers, parent=OWN_STARTER, **more):
        """Add processes by pairs of numbers: that on the host, that among all."""
        for local_rank, rank in numbers:
            numbers = {self.local_rank: local_rank, self.rank: rank}
            self.add(900 + local_rank, parent, variables={**self.common, **numbers, **more})

    def variables_of(self, process):
        """Return those of a process, unless it is another user's."""
        if int(process.name) in self.of_others:
            raise PermissionError
        return variables_of(process)


@pytest.fixture
def told(monkeypatch):
    """A function that looks at a place until two looks have found what they can."""

    def tell(proc, place):
        now = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        monkeypatch.setattr(neighbours, "variables_of", proc.variables_of)
        others = neighbours.Neighbours(place, proc.common, proc.folder)
        for now[0] in (1.0, 5.0, 5.5):
            assert others.ended() is None
        now[0] = 8.0
        return others.ended()

    return tell


def place_of(starter, rank=3, local_rank=0, local_size=3, size=7):
    return Place(starter, rank, size, local_rank, local_size)


@pytest.mark.parametrize("starter", VARIABLES)
def test_nothing_is_told_while_all_live(tmp_path, told, starter):
    proc = Proc(tmp_path, starter)
    proc.add_ranks([(0, 3), (1, 4), (2, 5)])
    assert told(proc, place_of(starter)) is None


@pytest.mark.parametrize(
    ("starter", "name", "rank"),
    [
        ("slurm", "rank 4", 4),
        ("torchrun", "rank 4", 4),
        ("open mpi", "the rank with OMPI_COMM_WORLD_LOCAL_RANK=1", None),
        ("pmi", "the rank with MPI_LOCALRANKID=1", None),
    ],
)
def test_a_process_of_one_host_of_several_is_named_as_far_as_it_is_known(
    tmp_path, told, starter, name, rank
):
    proc = Proc(tmp_path, starter)
    proc.add_ranks([(0, 3), (2, 5)])
    error = told(proc, place_of(starter))
    assert str(error) == (
        f"{name} on {os.uname().nodename} has ended before its first call of Tarantella. See its "
        "output. [peer-lost]"
    )
    assert error.cause_rank == rank


@pytest.mark.parametrize("starter", VARIABLES)
def test_on_one_host_alone_the_rank_is_known(tmp_path, told, starter):
    numbers = [(0, 0), (2, 2)] if starter in ("slurm", "torchrun") else [(0, 0), (1, 2)]
    proc = Proc(tmp_path, starter)
    proc.add_ranks(numbers)
    assert told(proc, place_of(starter, rank=0, size=3)).cause_rank == 1


def test_an_older_open_mpi_has_another_variable(tmp_path, told):
    proc = Proc(tmp_path, "open mpi")
    proc.common = {"OMPI_MCA_ess_base_jobid": "7"}
    proc.add_ranks([(0, 3), (2, 5)])
    assert told(proc, place_of("open mpi")) is not None


@pytest.mark.parametrize(
    ("name", "pid"),
    [("bash", OWN_STARTER), ("hydra_pmi_proxy", 1), ("torchrun", 1), ("slurmstepd", 1)],
)
def test_whatever_has_started_this_process_shows_that_no_container_hides_others(
    tmp_path, told, name, pid
):
    proc = Proc(tmp_path, "pmi", name, pid)
    proc.add_ranks([(0, 3), (2, 5)], parent=pid)
    assert told(proc, place_of("pmi")) is not None


def test_a_daemon_of_another_user_is_known_by_its_name(tmp_path, told):
    proc = Proc(tmp_path, "slurm", "slurmstepd")
    proc.add_ranks([(0, 3), (2, 5)])
    proc.of_others.add(OWN_STARTER)
    assert told(proc, place_of("slurm")) is not None


@pytest.mark.parametrize("starter", VARIABLES)
@pytest.mark.parametrize("name", ["init of a container", "shell of the start", "su of a container"])
def test_in_a_container_of_its_own_a_process_says_nothing_of_others(tmp_path, told, starter, name):
    if name == "init of a container":
        proc = Proc(tmp_path, starter, "init", pid=1)
    else:
        proc = Proc(tmp_path, starter, "sh")
        (tmp_path / str(OWN_STARTER) / "environ").write_bytes(
            (tmp_path / str(OWN_PARENT) / "environ").read_bytes()
        )
    if name == "su of a container":
        proc.of_others.add(OWN_STARTER)
    proc.add_ranks([(0, 3)])
    assert told(proc, place_of(starter)) is None


def test_a_rank_that_hides_its_variables_is_not_taken_for_one_that_has_ended(tmp_path, told):
    proc = Proc(tmp_path, "torchrun")
    proc.add_ranks([(0, 3), (1, 4), (2, 5)])
    proc.of_others.add(901)
    assert told(proc, place_of("torchrun")) is None


@pytest.mark.parametrize(("parent", "is_told"), [(OWN_STARTER, False), (801, True)])
def test_processes_of_another_mpirun_of_as_many_are_no_neighbours(tmp_path, told, parent, is_told):
    proc = Proc(tmp_path, "pmi")
    proc.add(801, name="hydra_pmi_proxy")
    proc.add_ranks([(0, 3), (2, 5)])
    proc.add_ranks([(1, 4)], parent)
    assert (told(proc, place_of("pmi")) is not None) == is_told


@pytest.mark.parametrize("missing", ["the mark", "the size", "the number"])
def test_a_start_that_does_not_tell_enough_has_no_known_neighbours(tmp_path, told, missing):
    proc = Proc(tmp_path, "torchrun")
    proc.add_ranks([(0, 3)])
    if missing == "the mark":
        proc.common = {"MASTER_PORT": "29500"}
    size = None if missing == "the size" else 3
    number = None if missing == "the number" else 0
    assert told(proc, place_of("torchrun", local_rank=number, local_size=size)) is None
