"""`launch`: a function on several ranks, called like any other."""

from __future__ import annotations

import operator
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from tnt_launch.errors import LaunchError, RankFailedError
from tnt_launch.function.call_folder import Call, CallFolder, name_of
from tnt_launch.function.launcher import Order, Outcome
from tnt_launch.function.launcher_process import LauncherProcess, command_of, interpreter
from tnt_launch.planning.spec import LaunchSpec, find_temporary_folder
from tnt_launch.planning.variables import OUTPUT_ON_ALL_DEVICES, TIMEOUT_S

_T = TypeVar("_T")


def launch(
    function: Callable[..., _T],
    n: int | None = None,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    allow_gpus: bool = True,
    output_on_all_devices: bool | None = None,
    timeout_s: float | None = None,
) -> list[_T]:
    """Run a function on the ranks of a new job, from a notebook or a script, and wait for its end.

    The ranks are new Python processes of this host, in this process's folder, with its environment
    and search path; they are started, watched and ended as by the command `tarantella`. The
    function, its arguments and what it returns are pickled: functions of a notebook, lambdas and
    closures too, with the values of all variables that they use. What was registered, set or loaded
    outside the function is missing. What rank 0 prints is written to `sys.stdout` while the job
    runs, and so are errors and warnings of all ranks to `sys.stderr`. An interrupt (Ctrl-C) ends
    all ranks, and so does the end of this process, for whatever reason.

    Args:
        function: What every rank calls.
        n: Number of ranks; by default one for each GPU, or one rank if there is none.
        args: Positional arguments, the same for all ranks.
        kwargs: Keyword arguments, the same for all ranks.
        env: Variables for all ranks, in addition to those of this process, such as
            `{"TNT_CHECK_STEPS": "1"}`.
        allow_gpus: Whether GPUs may be used.
        output_on_all_devices: Whether what the other ranks print is also shown.
        timeout_s: Longest wait of a collective operation, in seconds.

    Returns:
        What the function returned, by rank; `None` for a rank that left it by `sys.exit(0)`.

    Raises:
        LaunchError: If the job cannot be started, or if this process is a rank itself.
        TypeError: If the function or what it uses cannot be pickled, `args` is not a sequence, `n`
            is not a number, or `env` contains anything but strings.
        RankFailedError: If a rank has ended in another way than by an exception that can be raised
            here.
        BaseException: What the function raised on the rank that failed first, caused by a
            `RankFailedError` that names the rank and has its traceback.
    """
    _check_caller(function)
    _check_arguments(args)
    exports = _exports(env or {})
    num_ranks = _number_of_ranks(n)
    settings = {OUTPUT_ON_ALL_DEVICES.name: output_on_all_devices, TIMEOUT_S.name: timeout_s}
    # For its owner alone.
    path = tempfile.mkdtemp(prefix="tnt-launch-", dir=find_temporary_folder())
    try:
        folder = CallFolder(path)
        folder.write_call(Call(function, tuple(args), dict(kwargs or {})))
        spec = LaunchSpec(
            program=command_of(f"{__package__}.rank", path),
            interpreter=(interpreter(),),
            ranks_per_node=num_ranks,
            allow_gpus=allow_gpus,
            settings={name: value for name, value in settings.items() if value is not None},
            exports=exports,
        )
        with LauncherProcess() as launcher:
            outcome = launcher.run(Order(spec, path, name_of(function)))
            return _results(outcome, folder)
    finally:
        shutil.rmtree(path, ignore_errors=True)  # the launcher has done so, unless it was killed


def _check_caller(function: object) -> None:
    if not callable(function):
        raise TypeError(
            f"launch needs a function, not what it returns: launch(train, n=2, args=(...)). "
            f"Received: {function!r}."
        )
    if "TNT_RANK" in os.environ:
        raise LaunchError(
            f"this process is rank {os.environ['TNT_RANK']} of a job already: call "
            f"{name_of(function)} itself, or start the script without `tarantella`."
        )


def _check_arguments(args: object) -> None:
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise TypeError(
            f"`args` must be a tuple or list of the arguments, such as args=({args!r},). "
            f"Received: {args!r}."
        )


def _exports(env: Mapping[Any, Any]) -> tuple[tuple[str, str], ...]:
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(
                f"`env` must map names to texts, such as {{'OMP_NUM_THREADS': '1'}}. "
                f"Received: {name!r}: {value!r}."
            )
    return tuple(env.items())


def _number_of_ranks(n: Any) -> int | None:
    try:
        return None if n is None else operator.index(n)
    except TypeError:
        raise TypeError(f"`n` must be a number of ranks, such as 2. Received: {n!r}.") from None


def _results(outcome: Outcome | None, folder: CallFolder) -> list[Any]:
    if outcome is None:
        raise RankFailedError("the launcher was killed, and all ranks with it.")
    if outcome.size == 0:
        raise LaunchError(outcome.report)
    if outcome.report:
        _raise_failure(outcome, folder)
    return [_result(rank, folder) for rank in range(outcome.size)]


def _raise_failure(outcome: Outcome, folder: CallFolder) -> NoReturn:
    """Raise what a rank has raised, or else what the launcher says."""
    report = RankFailedError(outcome.report.removeprefix("tarantella: ").rstrip())
    raised = None if outcome.failed_rank is None else folder.read_error(outcome.failed_rank)
    if raised is None or raised.pickled is None:
        raise report
    try:
        error: BaseException = pickle.loads(raised.pickled)
    except Exception:  # its module cannot be imported here, say; the report has its text
        raise report from None
    raise error from report


def _result(rank: int, folder: CallFolder) -> Any:
    try:
        return folder.read_result(rank)
    except FileNotFoundError:
        raise RankFailedError(
            f"rank {rank} ended with exit code 0 before the function had returned, for example by "
            "os._exit."
        ) from None
    except Exception as error:
        raise RankFailedError(
            f"what rank {rank} returned cannot be unpickled here: {error}"
        ) from error
