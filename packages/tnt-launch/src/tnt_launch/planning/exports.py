"""Variables for the ranks, from `-x` and from files of `--env-file`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tnt_launch.errors import LaunchError
from tnt_launch.planning.paths import read_user_file


def parse_export(item: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Read one item of `-x`: `KEY=VALUE`, or `NAME` to copy a variable. Pure."""
    name, equals, value = item.partition("=")
    if equals:
        return name, value
    if name not in environment:
        raise LaunchError(
            f"-x needs KEY=VALUE, or the NAME of a variable that is set here, several separated by "
            f"spaces, values with spaces in quotes. Received: {item!r}. If that is the script, "
            f"write -- before it."
        )
    return name, environment[name]


def read_env_file(path: str, environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Read a file of variables; see `parse_env_file`. Local."""
    text = read_user_file(path, f"--env-file {path!r}", newline="")
    return tuple(parse_env_file(text, path, environment))


def parse_env_file(
    text: str, path: str, environment: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Read lines of `KEY=VALUE` exactly as docker reads an `--env-file`. Pure."""
    # Quotes belong to the value, and so do blanks behind it and `#`. Empty lines and lines that
    # begin with `#` say nothing. A `NAME` alone copies the launcher's variable if it is set.
    for number, line in enumerate(text.split("\n"), start=1):
        entry = line.removesuffix("\r").lstrip()
        if not entry or entry.startswith("#"):
            continue
        name, equals, value = entry.partition("=")
        if not name or len(name.split()) != 1 or name != name.strip():
            raise LaunchError(
                f"line {number} of --env-file {path!r} is malformed: it needs KEY=VALUE, without "
                f"blanks around KEY. Received: {entry!r}."
            )
        if equals:
            yield name, value
        elif name in environment:
            yield name, environment[name]
