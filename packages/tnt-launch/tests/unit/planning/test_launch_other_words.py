"""Words of other launchers: what is meant is done, or what to type is said."""

import sys

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning.command_line import make_spec, parse_arguments
from tnt_launch.planning.options import make_parser
from tnt_launch.planning.other_words import _NEEDLESS, _WORDS


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
        ("--num_machines 2 a.py", "--nnodes N, with --node-rank and --rendezvous"),
        ("--fusion-threshold-mb 2 a.py", "--fusion-threshold KB"),
        ("-m train --epochs 3", "tarantella [options] -- python -m MODULE."),
        ("--module train", "tarantella [options] -- python -m MODULE."),
        ("--mixed_precision fp16 a.py", "keras.mixed_precision.set_global_policy("),
        ("--num_cpu_threads_per_process=4 a.py", "-x TNT_NUM_THREADS=N."),
        (
            "--gradient_accumulation_steps 2 a.py",
            "gradient_accumulation_steps=K in the optimizer",
        ),
        ("--node_rank 1 a.py", "--node-rank K."),
        ("--max_restarts 3 a.py", "--max-restarts K."),
        ("--no-python a", '--python-interpreter "" for a program'),
        ("--num_gpus 2 a.py", "-n N."),
        ("--use_cpu a.py", "--no-gpu."),
        ("--ssh-port 22 a.py", '--ssh "ssh -p PORT -i PATH".'),
        ("--tag-output a.py", "--output-on-all-devices."),
        ("--partition long a.py", "it after sbatch or salloc"),
        ("--wdir runs a.py", "cd DIR before the command."),
    ],
)
def test_an_option_of_another_launcher_is_told_with_what_to_type(words, instead):
    word = words.split()[0].partition("=")[0]
    with pytest.raises(LaunchError) as error:
        spec_of(*words.split())
    assert str(error.value).startswith(f"{word} is not an option of tarantella. Type {instead}")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--mca btl tcp a.py", "tarantella does not need it."),
        ("--probe off a.py", "every step gives the serial result."),
    ],
)
def test_an_option_that_is_not_needed_is_to_be_left_out(words, reason):
    word = words.split()[0]
    with pytest.raises(LaunchError) as error:
        spec_of(*words.split())
    expected = f"{word} is not an option of tarantella. Leave it out: {reason}"
    assert str(error.value).startswith(expected)


@pytest.mark.parametrize(
    "word",
    [word for words in (*_WORDS.values(), *_NEEDLESS.values()) for word in words.split()],
)
def test_no_word_of_another_launcher_is_taken_for_something_else(word):
    with pytest.raises(LaunchError, match=f"^{word} is not an option of tarantella. (Type|Leave) "):
        spec_of(word, "2", "a.py")


def test_a_module_of_python_runs_where_python_stands_in_front_of_it():
    assert spec_of("-n", "2", "--", "python", "-m", "train", "x").program == ("-m", "train", "x")


@pytest.mark.parametrize("word", ["auto", "gpu", "cpu"])
def test_a_word_for_the_number_of_processes_is_to_be_left_out(word):
    with pytest.raises(LaunchError, match=r"leave it out: .* one rank for each GPU, or one rank"):
        spec_of("--nproc_per_node", word, "a.py")


@pytest.mark.parametrize("words", [["--node-rank", "0"], []], ids=["with its number", "alone"])
def test_one_node_of_torchrun_is_one_host_without_a_rendezvous(words):
    spec = spec_of("--nnodes", "1", *words, "--nproc-per-node", "2", "a.py")
    assert (spec.rendezvous, spec.num_hosts, spec.ranks_per_node) == (None, 1, 2)


@pytest.mark.parametrize("words", ["--nnodes 2", "--nnodes 1 --node-rank 1", "--nnodes 1 -N 2"])
def test_other_nodes_need_a_rendezvous(words):
    with pytest.raises(LaunchError, match="--node-rank and --rendezvous must be given together"):
        spec_of(*words.split(), "a.py")


def test_one_node_with_a_rendezvous_is_the_only_one_there():
    spec = spec_of("--nnodes", "1", "--node-rank", "0", "--rendezvous", "a:29400", "a.py")
    assert (spec.rendezvous.num_nodes, spec.num_hosts) == (1, None)


def test_a_mistake_in_an_option_of_our_own_is_told_as_such():
    with pytest.raises(LaunchError, match="unrecognized arguments: --nonsense"):
        spec_of("--nonsense", "a.py", "-m", "train")
