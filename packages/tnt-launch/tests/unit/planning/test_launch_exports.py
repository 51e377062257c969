"""Variables come from `-x` and from files as docker reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.errors import LaunchError
from tnt_launch.planning.command_line import parse_env_file, parse_export, read_env_file

NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
VALUE = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]))


def variables_of(text, **environment):
    return list(parse_env_file(text, "f", environment))


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("A=1", [("A", "1")]),
        ("A=", [("A", "")]),
        (" \tA= b \t", [("A", " b \t")]),
        ('A="b c" # no comment\r', [("A", '"b c" # no comment')]),
        ("A='b'", [("A", "'b'")]),
        ("A=b=c", [("A", "b=c")]),
        ("A=$B", [("A", "$B")]),
        ("#A=1", []),
        ("  # A=1", []),
        ("", []),
        (" \t", []),
        ("SET", [("SET", "s")]),
        ("NOT_SET", []),
        ("SET=", [("SET", "")]),
    ],
)
def test_a_line_means_what_it_means_for_docker(line, variables):
    assert variables_of(line, SET="s") == variables


@given(st.lists(st.tuples(NAME, VALUE)))
def test_every_value_of_one_line_is_kept_exactly(entries):
    assert variables_of("\n".join(f"{name}={value}" for name, value in entries)) == entries


@pytest.mark.parametrize("line", ["=1", "A =1", "A B=1", "export A=1", "A B", "SET "])
def test_a_malformed_line_is_named_with_its_number(line):
    with pytest.raises(LaunchError, match="line 2 of --env-file 'f' is malformed"):
        variables_of(f"# first\n{line}\n", SET="s")


def test_a_file_is_read_or_named(tmp_path):
    path = tmp_path / "env"
    path.write_bytes("\ufeffA=ü\r\nB=2".encode())
    assert read_env_file(str(path), {}) == (("A", "ü"), ("B", "2"))
    path.write_bytes(b"A=\xff")
    with pytest.raises(LaunchError, match="not text in UTF-8"):
        read_env_file(str(path), {})
    with pytest.raises(LaunchError, match="cannot be read: Is a directory"):
        read_env_file(str(tmp_path), {})


def test_a_name_alone_copies_what_is_set():
    assert parse_export("A", {"A": "x y"}) == ("A", "x y")
    assert parse_export("A=", {"A": "x"}) == ("A", "")
    with pytest.raises(LaunchError, match=r"'B'\. If that is the script, write -- before it"):
        parse_export("B", {"A": "x"})
