"""Host files and lists of hosts mean what they say, and errors name the line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.errors import LaunchError
from tnt_launch.planning.hosts import (
    HostSlots,
    merge_hosts,
    parse_host_list,
    parse_hostfile,
    read_hostfile,
)

NAME = st.from_regex(r"([a-z]{1,8}@)?[a-z][a-z0-9.-]{0,8}", fullmatch=True)
SLOTS = st.none() | st.integers(1, 256)


def hosts_of(text):
    return [(host.name, host.slots) for host in parse_hostfile(text, "f")]


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("a", [("a", None)]),
        ("a slots=4", [("a", 4)]),
        ("\ta  slots = 4 # x", [("a", 4)]),
        ("a:4#x", [("a", 4)]),
        ("10.0.0.1:2", [("10.0.0.1", 2)]),
        ("me@a.b-c.de:2", [("me@a.b-c.de", 2)]),
        (
            "node[08-10,20]",
            [("node08", None), ("node09", None), ("node10", None), ("node20", None)],
        ),
        ("me@n[1-2]x[3,5]:2", [(f"me@n{i}x{k}", 2) for i in (1, 2) for k in (3, 5)]),
        ("n[1-2] slots=3", [("n1", 3), ("n2", 3)]),
        ("[fe80::1]:2", [("fe80::1", 2)]),
        ("[::1]", [("::1", None)]),
        ("fe80::1:2", [("fe80::1:2", None)]),
        ("fe80::1%eth0 slots=3", [("fe80::1%eth0", 3)]),
        ("me@[fe80::1]:2", [("me@fe80::1", 2)]),
    ],
)
def test_every_form_of_a_line_is_read(line, hosts):
    assert hosts_of(line) == hosts


def test_comments_blank_lines_and_ends_of_lines_of_other_systems_say_nothing(tmp_path):
    path = tmp_path / "hosts"
    path.write_bytes(b"\xef\xbb\xbf# all\r\n\r\na slots=2\r\n \t\r\n  # none\r\nb:3 # last\r\n")
    assert read_hostfile(str(path)) == (HostSlots("a", 2), HostSlots("b", 3))


@given(st.lists(st.tuples(NAME, SLOTS), min_size=1, max_size=6), st.booleans())
def test_what_is_written_is_read(entries, has_colons):
    form = "{}:{}" if has_colons else "{} slots={}"
    lines = [name if slots is None else form.format(name, slots) for name, slots in entries]
    assert hosts_of("\n".join(lines)) == entries
    if has_colons:
        assert parse_host_list(",".join(lines)) == tuple(HostSlots(*entry) for entry in entries)


@pytest.mark.parametrize(
    "line",
    [
        *("a b", "-oX=y", "me@-oX", "a,b", "a[1-2],b", "a:b", "a:1:2", "a slots=", "a:2 x=1"),
        *("n[2-1]", "n[1", "n[]", "n[1-2", "n[[1]]", "n[1-999999999]", "@a", "u@v@a", "ä", "a$b"),
        *("[fe80::1", "fe80::1]", "[fe80::1::2]", "[fe80::1%a b]", f"a:{'9' * 30}", "a:²"),
    ],
)
def test_a_malformed_line_is_named_with_its_number(line):
    with pytest.raises(LaunchError) as caught:
        hosts_of(f"good\n\n{line}\n")
    assert str(caught.value).startswith(f"line 3 of the host file 'f' is malformed: {line!r}")


@pytest.mark.parametrize("slots", ["0", "-1", "257", "1000000"])
def test_an_impossible_number_of_slots_is_named(slots):
    with pytest.raises(LaunchError, match=f"line 1 .* between 1 and 256. Received: {slots}"):
        hosts_of(f"a slots={slots}")
    with pytest.raises(LaunchError, match=f"-H .* between 1 and 256. Received: {slots}"):
        parse_host_list(f"b,a:{slots}")


@pytest.mark.parametrize("text", ["", "\n \n\t\n", "# a\n"])
def test_a_file_without_a_host_is_refused(text):
    with pytest.raises(LaunchError, match="'f' names no host"):
        hosts_of(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(LaunchError, match="is a directory"):
        read_hostfile(str(tmp_path))
    with pytest.raises(LaunchError, match=r"none' cannot be read: No such file or directory\. \["):
        read_hostfile(str(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(LaunchError, match="not text in UTF-8"):
        read_hostfile(str(tmp_path / "binary"))
    with pytest.raises(LaunchError, match="cannot be read"):
        read_hostfile("a\0b")


def test_a_list_may_hold_ranges_and_addresses():
    hosts = parse_host_list("a:2, n[1-2,5]:3,[::1]:2,b")
    assert hosts == (
        HostSlots("a", 2),
        *(HostSlots(name, 3) for name in ("n1", "n2", "n5")),
        HostSlots("::1", 2),
        HostSlots("b"),
    )


@pytest.mark.parametrize("text", ["", "a,,b", "a,", "a slots=2 b"])
def test_a_malformed_list_is_shown(text):
    with pytest.raises(LaunchError, match=r"^-H .* is malformed"):
        parse_host_list(text)


def test_a_host_that_is_named_again_adds_its_slots_or_is_ignored_with_a_remark():
    hosts, remarks = merge_hosts(parse_host_list("a,b:2,a:1,B:3,b,c,c"))
    assert hosts == (HostSlots("a", 1), HostSlots("b", 5), HostSlots("c"))
    assert remarks == tuple(f"the host {name!r} is named again: ignored" for name in "bc")


def test_slots_that_add_up_to_too_many_are_refused():
    with pytest.raises(LaunchError, match=r"slots of 'a', named several .* Received: 300"):
        merge_hosts([HostSlots("a", 200), HostSlots("a", 100)])


def test_one_host_with_two_users_is_refused():
    with pytest.raises(LaunchError, match="'a' is named as 'me@a' and as 'a'"):
        merge_hosts([HostSlots("me@a"), HostSlots("a")])


def test_user_and_host_are_told_apart():
    assert [(h.user, h.host) for h in parse_host_list("me@a,b,me@[::1]")] == [
        ("me", "a"),
        ("", "b"),
        ("me", "::1"),
    ]
