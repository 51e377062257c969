"""What is said about limits of the operating system."""

import errno
import os
import resource

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.running.processes import limits_told


@pytest.mark.parametrize(
    ("number", "limit", "what"),
    [
        (errno.EMFILE, resource.RLIMIT_NOFILE, "open files (ulimit -n)"),
        (errno.EAGAIN, resource.RLIMIT_NPROC, "processes and threads (ulimit -u)"),
    ],
)
@pytest.mark.parametrize("value", [7, resource.RLIM_INFINITY])
def test_an_error_from_a_limit_names_it(
    number: int, limit: int, what: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda asked: {limit: (value, value)}[asked])
    with pytest.raises(LaunchError) as caught, limits_told():
        raise OSError(number, os.strerror(number))
    assert what in str(caught.value)
    assert ("is 7: raise it." if value == 7 else "that of the host") in str(caught.value)


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(FileNotFoundError), limits_told():
        raise FileNotFoundError(errno.ENOENT, "no such file")
