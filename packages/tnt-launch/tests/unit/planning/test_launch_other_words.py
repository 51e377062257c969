"""Words of other launchers: what is meant is done, or what to type is said."""

import sys

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning.command_line import make_spec, parse_arguments
from tnt_launch.planning.options import make_parser


def spec_of(*arguments):
    return make_spec(parse_arguments(make_parser(), list(arguments)), {})


@pytest.mark.parametrize("name", ["--nproc-per-node", "--nproc_per_node"])
def test_torchruns_number_of_processes_is_that_of_each_host(name):
    assert spec_of(name, "3", "a.py").ranks_per_node == 3


@pytest.mark.parametrize("name", ["-np", "--np", "--num-proc", "--num-processes"])
def test_the_number_of_processes_of_mpirun_and_others_is_that_of_the_job(name):
    assert spec_of(name, "3", "a.py").num_ranks == 3


@pytest.mark.parametrize(
    ("words", "interpreter", "program"),
    [
        (["python", "a.py", "-u"], ("python",), ("a.py", "-u")),
        (["python3", "-u", "a.py"], ("python3", "-u"), ("a.py",)),
        (["/opt/bin/python3.12", "-X", "dev", "-m", "train"], None, ("-m", "train")),
        (["python", "-c", "print()"], ("python",), ("-c", "print()")),
        (["a.py", "python"], (sys.executable,), ("a.py", "python")),
        (["python"], (sys.executable,), ("python",)),
        (["pythonic.py", "x"], (sys.executable,), ("pythonic.py", "x")),
    ],
)
def test_python_in_front_of_the_script_is_the_interpreter(words, interpreter, program):
    spec = spec_of("-n", "2", "--", *words)
    assert spec.program == program
    assert spec.interpreter == (interpreter or ("/opt/bin/python3.12", "-X", "dev"))


def test_a_script_that_is_called_python_is_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python").touch()
    assert spec_of("--", "python", "x").program == ("python", "x")


def test_an_interpreter_that_is_given_counts():
    spec = spec_of("--python-interpreter", "", "--", "python", "a.py")
    assert (spec.interpreter, spec.program) == ((), ("python", "a.py"))


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("--ntasks-per-node=2 a.py", "-n N"),
        ("-ppn 2 a.py", "-n N"),
        ("-c 4 a.py", "-x TNT_NUM_THREADS=N"),
        ("--master_addr a --nnodes 2 a.py", "--rendezvous HOST:PORT"),
        ("-hostfile hosts a.py", "--hostfile PATH"),
        ("--mca btl tcp a.py", "nothing, it is not needed"),
        ("--num_machines 2 a.py", "--nnodes N, with --node-rank and --rendezvous"),
        ("--fusion-threshold-mb 2 a.py", "--fusion-threshold KB"),
    ],
)
def test_an_option_of_another_launcher_is_told_with_what_to_type(words, instead):
    word = words.split()[0].partition("=")[0]
    with pytest.raises(LaunchError) as error:
        spec_of(*words.split())
    assert str(error.value).startswith(f"{word} is not an option of tarantella. Type {instead}")


def test_a_mistake_in_an_option_of_our_own_is_told_as_such():
    with pytest.raises(LaunchError, match="unrecognized arguments: --nonsense"):
        spec_of("--nonsense", "a.py")
