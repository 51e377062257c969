"""A function on the ranks of a job: what it returns, prints and raises comes back to the caller."""

import contextlib
import io
import linecache
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial

import pytest
from launched import LIMIT_S, environment, tell

from tnt_launch.errors import LaunchError, RankFailedError
from tnt_launch.function import launch as module

launch = partial(module.launch, allow_gpus=False)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder in which temporary files lie; a call leaves none."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    assert list(path.iterdir()) == []


def on_rank(number, function):
    """A function that does something on one rank, and waits elsewhere."""

    def call():
        if os.environ["TNT_RANK"] == str(number):
            return function()
        return time.sleep(1000)

    return call


def raise_error(error):
    raise error


def test_results_come_in_the_order_of_ranks():
    factor = 10

    def multiply(number, plus=0):
        return int(os.environ["TNT_RANK"]), os.environ["TNT_SIZE"], factor * number + plus

    found = launch(multiply, n=3, args=(4,), kwargs={"plus": 2})
    assert found == [(0, "3", 42), (1, "3", 42), (2, "3", 42)]


def test_one_rank_is_a_new_process_too():
    assert launch(lambda: os.getpid()) != [os.getpid()]


def test_a_class_of_the_caller_is_the_same_class_when_it_comes_back():
    class Point:
        pass

    (found,) = launch(lambda: Point(), n=1)
    assert type(found) is Point


def test_ranks_have_the_folder_modules_arguments_and_variables_of_the_caller(tmp_path, monkeypatch):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "my_module.py").write_text("VALUE = 7\n")
    (tmp_path / "pickle.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.syspath_prepend(tmp_path / "beside")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "--steps", "3"])
    monkeypatch.setenv("INHERITED", "yes")

    def look():
        import my_module

        return my_module.VALUE, os.getcwd(), sys.argv, os.environ["INHERITED"], os.environ["GIVEN"]

    given = {"GIVEN": "a b", "TNT_TIMEOUT_S": " 7 "}
    expected = (7, str(tmp_path), ["train.py", "--steps", "3"], "yes", "a b")
    assert launch(look, n=1, env=given) == [expected]
    assert launch(lambda: os.environ["TNT_TIMEOUT_S"], n=1, timeout_s=5) == ["5"]


def test_output_of_rank_0_is_shown_and_errors_of_all(capsys):
    def speak():
        rank = os.environ["TNT_RANK"]
        print("said by", rank)
        print("warned by", rank, file=sys.stderr)

    launch(speak, n=2)
    out, err = capsys.readouterr()
    assert out == "said by 0\n"
    assert sorted(err.splitlines()) == ["[1] warned by 1", "warned by 0"]


def test_output_of_all_ranks_is_shown_if_asked_for(capsys):
    launch(lambda: print("said by", os.environ["TNT_RANK"]), n=2, output_on_all_devices=True)
    out, _ = capsys.readouterr()
    assert sorted(out.splitlines()) == ["[1] said by 1", "said by 0"]


def test_output_is_shown_while_the_function_runs(tmp_path):
    class Stream(io.StringIO):
        def write(self, text):
            (tmp_path / "seen").touch()
            return super().write(text)

    def wait_until_seen():
        print("a part of a line: 20 °C", end="")
        while not (tmp_path / "seen").exists():
            time.sleep(0.01)

    with contextlib.redirect_stdout(Stream()) as stream:
        launch(wait_until_seen, n=1)
    assert stream.getvalue() == "a part of a line: 20 °C"


def test_much_output_and_large_results_arrive_whole(capsys):
    def produce():
        for number in range(20_000):
            print(number, "x" * 100)
        return bytes(50_000_000)

    (found,) = launch(produce, n=1)
    assert len(found) == 50_000_000
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{number} {'x' * 100}" for number in range(20_000)]


def test_an_exception_is_raised_here_with_its_type_and_the_ranks_traceback(capsys):
    class OwnError(Exception):
        pass

    def fail():
        print("said before")
        raise OwnError("too few samples", 3)

    with pytest.raises(OwnError) as caught:
        launch(on_rank(1, fail), n=2)
    assert caught.value.args == ("too few samples", 3)
    report = str(caught.value.__cause__)
    assert type(caught.value.__cause__) is RankFailedError
    assert report.startswith("rank 1 on ")
    assert "failed first: exit code 1: " in report
    assert "said before" in report
    assert ", in fail\n    raise OwnError(" in report
    assert "was still running, ended by tarantella" in report
    assert "function/rank.py" not in report
    assert capsys.readouterr().err == ""  # all is in the exception


def test_an_exception_that_cannot_be_pickled_is_told_in_words():
    with pytest.raises(RankFailedError, match=r"ValueError: .*lock object"):
        launch(lambda: raise_error(ValueError(threading.Lock())), n=1)


def test_an_exception_that_comes_back_as_another_one_is_told_in_words():
    class TwoArgumentsError(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first} and {second}")

    with pytest.raises(RankFailedError, match="TwoArgumentsError: a and b"):
        launch(lambda: raise_error(TwoArgumentsError("a", "b")), n=1)


def test_the_first_exception_in_time_is_raised_though_its_process_ends_last(tmp_path):
    def fail():
        if os.environ["TNT_RANK"] == "1":
            threading.Thread(target=time.sleep, args=(1,)).start()  # Python waits for it
            (tmp_path / "failed").touch()
            raise LookupError("the cause")
        while not (tmp_path / "failed").exists():
            time.sleep(0.01)
        time.sleep(0.1)
        raise ValueError("a consequence")

    with pytest.raises(LookupError, match="the cause") as caught:
        launch(fail, n=2)
    assert "exit code 1: ValueError: a consequence" in str(caught.value.__cause__)


def test_a_lost_peer_is_not_the_cause():
    def fail():
        if os.environ["TNT_RANK"] == "0":
            tell("PeerLostError", "lost rank 1", cause_rank=1)
            raise RuntimeError("lost rank 1")
        time.sleep(0.3)
        raise LookupError("the cause")

    with pytest.raises(LookupError, match="the cause"):
        launch(fail, n=2)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda: sys.exit(3), "rank 1 on .* failed first: exit code 3"),
        (lambda: sys.exit("no samples"), "(?s)failed first: exit code 1.*no samples"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "failed first: killed by SIGKILL"),
    ],
)
def test_a_rank_that_ends_itself_is_told(end, told):
    with pytest.raises(RankFailedError, match=told):
        launch(on_rank(1, end), n=2)


def test_a_rank_that_leaves_without_a_result_is_told():
    with pytest.raises(RankFailedError, match="rank 0 ended with exit code 0 before"):
        launch(lambda: os._exit(0), n=1)


def test_leaving_by_sys_exit_without_a_code_is_no_failure():
    assert launch(lambda: sys.exit(), n=2) == [None, None]


def test_a_result_that_cannot_be_pickled_is_told():
    with pytest.raises(TypeError, match=r"rank 0: .* of type generator, cannot be pickled: .* Ret"):
        launch(lambda: (number for number in range(3)), n=1)


def test_a_function_that_cannot_be_pickled_is_told_before_anything_starts():
    lock = threading.Lock()

    def use_lock():
        return lock

    with pytest.raises(TypeError, match=r"use_lock cannot be sent .*lock.* Create it inside"):
        launch(use_lock, n=2)


@pytest.mark.parametrize("n", [0, -1, 1000])
def test_a_number_of_ranks_out_of_range_is_refused(n):
    with pytest.raises(LaunchError, match=f"between 1 and 256. Received: -n {n}"):
        launch(print, n=n)


def test_a_call_in_the_place_of_the_function_is_refused():
    with pytest.raises(TypeError, match=r"needs a function, not what it returns: .* Received: 3."):
        launch(3, n=2)


def test_a_malformed_variable_is_told():
    with pytest.raises(LaunchError, match="TNT_TIMEOUT_S"):
        launch(print, n=1, env={"TNT_TIMEOUT_S": "soon"})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"env": {"OMP_NUM_THREADS": 1}}, r"names to texts.* Received: 'OMP_NUM_THREADS': 1\."),
        ({"args": 5}, r"`args` must be a tuple or list .*args=\(5,\)\. Received: 5\."),
        ({"args": "ab"}, r"`args` must be a tuple or list .* Received: 'ab'\."),
        ({"n": "2"}, r"`n` must be a number of ranks, such as 2\. Received: '2'\."),
    ],
)
def test_an_argument_of_another_type_is_refused(arguments, told):
    with pytest.raises(TypeError, match=told):
        launch(print, **arguments)


def test_a_rank_cannot_launch():
    with pytest.raises(LaunchError, match="this process is rank 0 of a job already: call print"):
        launch(lambda: module.launch(print, n=2), n=1)


def test_files_of_a_call_are_for_their_owner_alone():
    def modes():
        entries = [tempfile.tempdir, *os.scandir(tempfile.tempdir)]
        return [oct(os.stat(entry).st_mode & 0o777) for entry in entries]

    def look(path):
        tempfile.tempdir = next(os.scandir(path)).path
        return modes()

    assert launch(look, n=1, args=(tempfile.tempdir,)) == [["0o700", "0o600"]]


def test_tracebacks_show_the_lines_of_a_notebooks_cell():
    name, source = "/tmp/a_kernel/17.py", 'def fail():\n    raise LookupError("in a cell")\n'
    names = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), names)
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    try:
        with pytest.raises(LookupError) as caught:
            launch(names["fail"], n=1)
    finally:
        del linecache.cache[name]
    assert 'line 2, in fail\n    raise LookupError("in a cell")\n' in str(caught.value.__cause__)


def test_a_process_that_a_rank_leaves_behind_ends_with_the_job():
    def leave_one_behind():
        sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return sleeper.pid

    (pid,) = launch(leave_one_behind, n=1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_job_ends_if_its_output_cannot_be_written():
    class Broken(io.StringIO):
        def write(self, text):
            raise OSError("the disk is full")

    def speak():
        print("a word")
        time.sleep(1000)

    with contextlib.redirect_stdout(Broken()), pytest.raises(OSError, match="the disk is full"):
        launch(speak, n=2)


def test_scripts_need_no_guard_and_programs_from_stdin_work(tmp_path):
    program = """
from tnt_launch.function.launch import launch
size = 2
def describe():
    import os
    return int(os.environ["TNT_RANK"]) + 10 * size
print(launch(describe, n=size, allow_gpus=False))
"""
    (tmp_path / "script.py").write_text(program)
    for command, text in (["script.py"], ""), (["-i", "-q"], program + "\n"):
        finished = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment(),
            input=text.replace("size\nprint", "size\n\nprint"),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        assert "[20, 21]\n" in finished.stdout, finished.stderr


def test_nothing_is_loaded_for_a_function_before_there_is_one():
    program = """
import sys
import tnt_launch.cli, tnt_launch.function.launch
assert not {"cloudpickle", "numpy"} & {*sys.modules}, sys.modules
"""
    subprocess.run([sys.executable, "-c", program], env=environment(), timeout=LIMIT_S, check=True)
