"""What processes of schedulers and MPIs find in their environment means the same to all."""

import pathlib
from dataclasses import asdict

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

import tarantella
import tnt_keras
from tnt_comm.start.place import advice, find_place

TEXT = pathlib.Path(__file__).with_name("scheduler_environments.toml").read_text("utf-8")
RECORDS = tomllib.loads(TEXT)["environment"]
RIGHT = [record for record in RECORDS if "error" not in record]


def name_of(record):
    return record["name"]


@pytest.mark.parametrize("record", RIGHT, ids=name_of)
def test_a_process_knows_its_place_among_those_that_were_started_with_it(record):
    place = find_place(record["variables"], record.get("is_typed", False))
    told = {} if place is None else asdict(place)
    assert {name: value for name, value in told.items() if value is not None} == record.get(
        "place", {}
    )


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


@pytest.mark.parametrize("package", [tarantella, tnt_keras], ids=["tarantella", "tnt_keras"])
def test_packages_look_for_a_place_where_there_is_one(package):
    """They do so when they are imported, and only with one of these variables."""
    records = [record["variables"].keys() for record in RIGHT if "place" in record]
    assert all(not names.isdisjoint(package._MARKS) for names in records)
