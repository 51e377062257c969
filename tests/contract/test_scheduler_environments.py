"""What processes of schedulers and MPIs find in their environment means the same to all."""

import pathlib
from dataclasses import asdict

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

import tnt_keras
from tnt_comm.start.place import advice, find_place
from tnt_comm.start.rank_process import scheduler_job
from tnt_launch.errors import LaunchError
from tnt_launch.planning.allocation import find_allocation, scheduler_job_of
from tnt_launch.planning.scheduler_job import in_scheduler_job
from tnt_launch.planning.spec import LaunchSpec

TEXT = pathlib.Path(__file__).with_name("scheduler_environments.toml").read_text("utf-8")
RECORDS = tomllib.loads(TEXT)["environment"]
RIGHT = [record for record in RECORDS if "error" not in record]


def name_of(record):
    return record["name"]


@pytest.mark.parametrize("record", RIGHT, ids=name_of)
def test_a_process_knows_its_place_among_those_that_were_started_with_it(record):
    place = find_place(record["variables"], record.get("is_typed", False))
    told = {} if place is None else asdict(place)
    said = {name: value for name, value in told.items() if not (value is None or value is False)}
    assert said == record.get("place", {})


@pytest.mark.parametrize("record", RIGHT, ids=name_of)
def test_a_process_that_is_alone_in_a_job_of_several_is_advised(record):
    if "place" in record:
        return
    said = advice(record["variables"])
    assert (said is None) == ("warning" not in record)
    assert record.get("warning", "") in (said or "")


@pytest.mark.parametrize("record", [one for one in RECORDS if "error" in one], ids=name_of)
def test_variables_that_are_missing_or_contradict_each_other_are_named(record):
    with pytest.raises(ValueError) as caught:
        find_place(record["variables"])
    assert record["error"] in str(caught.value)


def test_one_place_is_given_once():
    """Ranks of one start that were recorded have numbers of their own."""
    places = [find_place(record["variables"]) for record in RIGHT if "cyclic" in record["name"]]
    assert sorted(place.rank for place in places) == [0, 1, 2, 3]


ALONE = [record for record in RIGHT if "place" not in record]
AMONG_OTHERS = [
    record
    for record in RIGHT
    # It cannot be told from what is typed into a shell that srun has started.
    if record.get("place", {}).get("size", 1) > 1 and "SLURM_PTY_PORT" not in record["variables"]
]


def read_hosts(path):
    """What the files have that are named in the records."""
    return "n1\nn1\nn2\nn2\n" if "pe_hostfile" not in path else "n1 2 q u\nn2 2 q u\n"


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_launcher_and_ranks_know_the_same_job_of_a_scheduler(record):
    job = scheduler_job(record["variables"])
    assert scheduler_job_of(record["variables"]) == job
    number = record["variables"].get("SLURM_JOB_ID")
    assert number is None or job == f"SLURM_JOB_ID={number}"


@pytest.mark.parametrize("record", ALONE, ids=name_of)
def test_the_launcher_takes_the_hosts_of_the_job_where_a_process_is_alone(record):
    in_job = in_scheduler_job(LaunchSpec(("a.py",)), record["variables"], read_hosts)
    allocation = find_allocation(record["variables"], read_hosts)
    if "allocation" in record:
        hosts = [[host.name, host.slots] for host in allocation.hosts]
        assert hosts == record["allocation"]
        assert in_job.hosts == allocation.hosts
    elif not {"PE_HOSTFILE", "PBS_NODEFILE"} & record["variables"].keys():
        assert not in_job.hosts
        assert in_job.rendezvous is None


@pytest.mark.parametrize("record", AMONG_OTHERS, ids=name_of)
def test_a_launcher_among_others_is_refused(record):
    """None was recorded of srun with one task on each node, where they meet."""
    with pytest.raises(LaunchError, match="and each would start its own job"):
        in_scheduler_job(LaunchSpec(("a.py",)), record["variables"], read_hosts)


def test_a_place_is_looked_for_where_there_is_one():
    """That is done when a package is imported, and only with one of these variables."""
    records = [record["variables"].keys() for record in RIGHT if "place" in record]
    assert all(not names.isdisjoint(tnt_keras._MARKS) for names in records)
