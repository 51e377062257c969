"""Names with ranges stand for the hosts that Slurm would name."""

import os
import shutil
import subprocess
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.planning.hosts import MAX_HOSTS_OF_A_NAME, expand_ranges

SCONTROL = shutil.which("scontrol")


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("a", ["a"]),
        ("n[1]", ["n1"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[09-11]", ["n09", "n10", "n11"]),
        ("n[099-100]", ["n099", "n100"]),
        ("n[9-9].domain", ["n9.domain"]),
        ("[1-2]n", ["1n", "2n"]),
        ("n[3,1-2,1]", ["n3", "n1", "n2", "n1"]),
        ("r[1-2]n[01,3]x", ["r1n01x", "r1n3x", "r2n01x", "r2n3x"]),
        ("n[1-2][3-4]", ["n13", "n14", "n23", "n24"]),
    ],
)
def test_a_name_stands_for_its_hosts_in_its_order(name, hosts):
    assert expand_ranges(name) == hosts


@pytest.mark.parametrize(
    "name",
    [
        *("n[", "n]", "n[]", "n[1", "n1]", "n[[1]]", "n[1]]", "n[2-1]", "n[1-]", "n[-1]", "n[1,]"),
        *("n[a]", "n[1 ]", "n[1-2-3]", "n[+1]", "n[1_0]", "n[²]", "n[1],m[2]", "a,b", "n[1\n]"),
    ],
)
def test_a_malformed_name_stands_for_none(name):
    assert expand_ranges(name) == []


def test_a_name_of_too_many_hosts_stands_for_none_at_once():
    assert len(expand_ranges(f"n[1-{MAX_HOSTS_OF_A_NAME}]")) == MAX_HOSTS_OF_A_NAME
    # To write the last ones down would take hours.
    for name in (f"n[0-{MAX_HOSTS_OF_A_NAME}]", "n[1-999999999999999]", "n[0-9999]" * 9):
        assert expand_ranges(name) == []


ITEM = st.tuples(st.integers(0, 120), st.integers(0, 5), st.integers(1, 4))


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "n", "rack-"]), st.lists(ITEM, min_size=1, max_size=3)),
        min_size=1,
        max_size=3,
    )
)
def test_each_number_has_the_digits_of_the_first_of_its_range(groups):
    name, numbers = "", []
    for text, items in groups:
        written = [(f"{first:0{digits}}", first + more) for first, more, digits in items]
        name += f"{text}[{','.join(f'{first}-{last}' for first, last in written)}]"
        numbers.append(
            [
                text + str(number).zfill(len(first))
                for first, last in written
                for number in range(int(first), last + 1)
            ]
        )
    assert expand_ranges(name) == ["".join(each) for each in product(*numbers)]


@pytest.mark.skipif(SCONTROL is None, reason="scontrol of Slurm is not installed")
@pytest.mark.parametrize("name", ["n[9-11]", "n[099-100]", "n[1-2][3-4]", "n[3,1-2,1]", "n[2-1]"])
def test_scontrol_names_the_same_hosts(name, tmp_path):
    cluster = tmp_path / "slurm.conf"  # without one it names no host
    cluster.write_text("ClusterName=c\nSlurmctldHost=localhost\nNodeName=localhost\n")
    told = subprocess.run(
        ["scontrol", "show", "hostnames", name],
        env={**os.environ, "SLURM_CONF": str(cluster)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert expand_ranges(name) == told.stdout.split()
