"""A command line becomes a spec, or an error that says what to do."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from tnt_launch.cli import main
from tnt_launch.errors import LaunchError
from tnt_launch.function.launch import launch
from tnt_launch.planning.command_line import arguments_of_measure, make_spec, parse_arguments
from tnt_launch.planning.grammar import Boolean
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.options import make_parser
from tnt_launch.planning.variables import OPTIONS, USER_VARIABLES

HEAVY_MODULES = (
    *("tensorflow", "numpy", "logging", "subprocess", "ctypes", "importlib.metadata"),
    "ipaddress",
)


def spec_of(*arguments, **environment):
    return make_spec(parse_arguments(make_parser(), list(arguments)), environment)


def error_of(capsys, *arguments):
    """Run a command line that must fail with exit code 2; returns what it said."""
    try:
        exit_code = main(list(arguments))
    except SystemExit as error:
        exit_code = error.code
    assert exit_code == 2
    said = capsys.readouterr().err
    assert said.startswith("tarantella: error: ")
    assert said.count("\n") == 1
    return said


def test_everything_behind_the_separator_belongs_to_the_script():
    words = ("train.py", "--flag", "a b", "-n", "7", "--", "--dry-run", "")
    spec = spec_of("-n", "2", "--", *words)
    assert spec.program == words
    assert spec.ranks_per_node == 2


def test_the_separator_may_be_left_out_without_dash_options():
    assert spec_of("-n", "2", "train.py", "a b", "-").program == ("train.py", "a b", "-")


def test_a_dash_option_behind_the_script_needs_the_separator(capsys):
    text = error_of(capsys, "-n", "2", "train.py", "--flag", "a b")
    assert "'--flag' comes after the script" in text
    assert "tarantella [options] -- train.py --flag 'a b'" in text


def test_the_script_cannot_stand_before_the_separator(capsys):
    assert "'train.py' comes before it" in error_of(capsys, "train.py", "--", "--flag")


@pytest.mark.parametrize("name", ["-n", "--n-per-node", "--devices-per-node", "--npernode"])
def test_all_names_of_the_number_of_ranks_mean_the_same(name):
    assert spec_of(name, "3", "a.py").ranks_per_node == 3


def test_two_different_numbers_of_ranks_are_refused():
    with pytest.raises(LaunchError, match=r"Give one of them. Received: \[2, 3\]"):
        spec_of("-n", "2", "--npernode", "3", "a.py")


def test_the_same_number_of_ranks_twice_is_accepted():
    assert spec_of("-n", "2", "--npernode", "2", "a.py").ranks_per_node == 2


@pytest.mark.parametrize("count", ["0", "-1", "257"])
def test_an_impossible_number_of_ranks_is_refused(capsys, count):
    text = error_of(capsys, "-n", count, "--", "a.py")
    assert "between 1 and 256" in text
    assert f"-n {count}" in text


@pytest.mark.parametrize("name", ["--no-gpu", "--no-gpus"])
def test_gpus_can_be_refused(name):
    assert spec_of("a.py").allow_gpus
    assert not spec_of(name, "a.py").allow_gpus


def test_exports_add_up_in_the_order_given():
    spec = spec_of("-x", "A=1", "B=x y", "-x", "A=", "C=d=e", "--", "a.py")
    assert spec.exports == (("A", "1"), ("B", "x y"), ("A", ""), ("C", "d=e"))


def test_a_name_alone_exports_the_variable_of_the_launcher():
    spec = spec_of("-x", "A", "B=2", "-x", "A=3", "--", "a.py", A="1")
    assert spec.exports == (("A", "1"), ("B", "2"), ("A", "3"))


def test_files_of_variables_come_before_exports_in_their_order(tmp_path):
    for name, text in {"one": "A=1\nB=1\nCOPIED\n", "two": "B=2\nC=2\n"}.items():
        (tmp_path / name).write_text(text)
    files = ["--env-file", str(tmp_path / "one"), "--env-file", str(tmp_path / "two")]
    spec = spec_of("-x", "C=3", *files, "--", "a.py", COPIED="c")
    assert dict(spec.exports) == {"A": "1", "B": "2", "C": "3", "COPIED": "c"}


def test_a_file_of_variables_cannot_set_those_of_the_job(capsys, tmp_path):
    (tmp_path / "env").write_text("TNT_SIZE=3\n")
    assert "TNT_SIZE cannot be set" in error_of(
        capsys, "--env-file", str(tmp_path / "env"), "--", __file__
    )
    (tmp_path / "env").write_bytes(b"A=1\0\n")
    assert "zero byte" in error_of(capsys, "--env-file", str(tmp_path / "env"), "--", __file__)


def test_hosts_come_from_a_file_or_from_lists(tmp_path):
    (tmp_path / "hosts").write_text("a slots=2\nb\n")
    assert spec_of("a.py").hosts == ()
    assert spec_of("--hostfile", str(tmp_path / "hosts"), "a.py").hosts == (
        HostSlots("a", 2),
        HostSlots("b"),
    )
    spec = spec_of("-H", "a:2,b", "--host", "a:1", "-H", "b", "a.py")
    assert spec.hosts == (HostSlots("a", 3), HostSlots("b"))
    assert spec.remarks == ("the host 'b' is named again: ignored",)


def test_hosts_from_two_sources_are_refused(capsys, tmp_path):
    (tmp_path / "hosts").write_text("a\n")
    text = error_of(capsys, "--hostfile", str(tmp_path / "hosts"), "-H", "b", "--", __file__)
    assert "--hostfile and -H" in text


ENDS = {
    "doctor": "unrecognized arguments: --option. See tarantella doctor --help. [cannot-launch]\n",
    "verify": "it needs -- and a script behind its options. See tarantella verify --help. "
    "[cannot-launch]\n",
}


def test_measure_is_a_job_of_the_same_options():
    arguments = ["-n", "4", "--output", "a b.toml", "-H", "a,b"]
    expected = ["-n", "4", "-H", "a,b", "--", "-m", "tarantella.measure", "--output", "a b.toml"]
    assert arguments_of_measure(arguments) == expected
    assert arguments_of_measure([]) == ["--", "-m", "tarantella.measure"]


def test_measure_plans_ranks_that_measure(capsys):
    assert main(["measure", "-n", "2", "--dry-run"]) == 0
    assert capsys.readouterr().out.count(" -m tarantella.measure\n") == 2


def test_measure_takes_no_script(capsys):
    assert main(["measure", "-n", "2", "--output", "a", "--", "train.py"]) == 2
    assert "it takes no script, and no --" in capsys.readouterr().err
    assert main(["measure", "-n", "2", "train.py"]) == 2
    assert "'train.py' comes before it" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["doctor", "verify"])
def test_reserved_words_are_no_scripts_unless_written_as_such(capsys, tmp_path, monkeypatch, word):
    monkeypatch.chdir(tmp_path)
    (tmp_path / word).write_text("")
    for arguments in (["-n", "2", word, "--option"], [word, "--option"]):
        assert error_of(capsys, *arguments).endswith(ENDS[word])
    assert spec_of(f"./{word}").program == (f"./{word}",)
    assert spec_of("--", word, "-n").program == (word, "-n")
    assert spec_of("a.py", word).program == ("a.py", word)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["doctor", "--bind-to", "core"], "unrecognized arguments: --bind-to core"),
        (["--no-gpu", "doctor"], "unrecognized arguments: --no-gpu"),
        (["doctor", "--", "train.py"], "unrecognized arguments"),
        (["-n", "0", "doctor"], "between 1 and 256"),
        (["doctor", "-n", "2", "--npernode", "3"], "Give one of them"),
        (["doctor", "-H", "a", "--hostfile", "b"], "--hostfile and -H"),
    ],
)
def test_doctor_takes_the_options_of_hosts_alone(capsys, arguments, why):
    assert why in error_of(capsys, *arguments)


@pytest.mark.parametrize("options", [["--pin-to-socket"], ["--pin-memory-to-socket"]])
@pytest.mark.parametrize("where", ["core", "none"])
def test_two_ways_to_choose_cores_are_refused(capsys, options, where):
    text = error_of(capsys, "--bind-to", where, *options, "--", "a.py")
    assert "Give one of them" in text


def test_an_export_without_a_value_is_refused(capsys):
    text = error_of(capsys, "-x", "ENV0=1", "ENV2", "--", "a.py")
    assert "'ENV2'" in text
    assert "KEY=VALUE" in text


def test_a_script_swallowed_by_exports_gets_a_hint(capsys):
    assert "write -- before it" in error_of(capsys, "-x", "A=1", "a.py", "--", "b.py")


@pytest.mark.parametrize("item", ["=1", "A B=1", "1A=2", "A-B=1", "ä=1"])
def test_an_export_with_an_impossible_name_is_refused(capsys, item):
    name = item.partition("=")[0]
    assert f"Received: {name!r}" in error_of(capsys, "-x", item, "--", "a.py")


def test_variables_of_the_job_cannot_be_exported(capsys):
    assert "TNT_RANK cannot be set (-x, --env-file)" in error_of(
        capsys, "-x", "TNT_RANK=1", "--", "a.py"
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (None, (sys.executable,)),
        ("", ()),
        ("python3", ("python3",)),
        ("valgrind --log-file='a b' python", ("valgrind", "--log-file=a b", "python")),
    ],
)
def test_the_interpreter_is_a_command_prefix(command, words):
    options = [] if command is None else ["--python-interpreter", command]
    assert spec_of(*options, "a.py").interpreter == words


def test_an_unfinished_quote_in_the_interpreter_is_refused():
    with pytest.raises(LaunchError, match="not a command"):
        spec_of("--python-interpreter", "'a", "a.py")


def test_an_unknown_interpreter_is_named(capsys):
    assert "'no-such-python'" in error_of(
        capsys, "--python-interpreter", "no-such-python -u", "--", __file__
    )


def test_a_missing_script_is_named(capsys):
    assert "'no_such_script.py' does not exist in" in error_of(capsys, "no_such_script.py")


def test_a_folder_is_not_a_script(capsys, tmp_path):
    assert "is a directory" in error_of(capsys, str(tmp_path))


def test_a_program_that_cannot_be_executed_is_named(capsys):
    text = error_of(capsys, "--python-interpreter", "", "--", __file__)
    assert "chmod +x" in text


def test_a_host_without_a_folder_for_temporary_files_is_one_sentence(capsys, monkeypatch):
    def find_none():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.gettempdir", find_none)
    expected = "there is no folder for temporary files (No usable temporary directory found in"
    message = error_of(capsys, "-n", "2", "--", __file__)
    assert expected in message
    assert "set TMPDIR to one that exists" in message
    with pytest.raises(LaunchError, match="no folder for temporary files"):
        launch(print, n=2)


def test_no_script_is_refused(capsys):
    assert "no script given" in error_of(capsys, "-n", "2")
    assert "no script given" in error_of(capsys, "-n", "2", "--")


@pytest.mark.parametrize("option", ["--hostfil", "--log-lev", "--dry"])
def test_unknown_and_shortened_options_are_refused(capsys, option):
    assert option in error_of(capsys, option, "DEBUG", "--", "a.py")


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--fusion-threshold", "-1", "at least 0"),
        ("--fusion-threshold", "1.5", "at least 0, or auto"),
        ("--fusion-threshold", "automatic", "at least 0, or auto"),
        ("--fusion-threshold", "1_0", "at least 0, or auto"),
        ("--timeout", "1_0", "greater than 0"),
        ("-n", "1_0", "it must be an integer"),
        ("--wire-dtype", "int8", "one of none, bfloat16, float16. Received: 'int8'"),
        ("--bind-to", "cores", "one of core, numa, socket, none. Received: 'cores'"),
        ("--timeout", "0", "greater than 0"),
        ("--timeout", "inf", "greater than 0"),
        ("--timeout", "nan", "greater than 0"),
        ("--log-level", "LOUD", "one of DEBUG, INFO, WARNING, ERROR. Received: 'LOUD'"),
    ],
)
def test_values_out_of_range_are_refused(capsys, option, value, text):
    assert text in error_of(capsys, option, value, "--", "a.py")


def test_a_malformed_variable_in_the_environment_is_named(capsys, monkeypatch):
    monkeypatch.setenv("TNT_FUSION_THRESHOLD_KB", "many")
    text = error_of(capsys, "--", __file__)
    assert "TNT_FUSION_THRESHOLD_KB" in text
    assert "'many'" in text


@pytest.mark.parametrize("text", ["65000", "20_000", ""])
def test_a_port_that_ranks_would_refuse_is_refused_in_one_line(capsys, monkeypatch, text):
    monkeypatch.setenv("TNT_GPI2_PORT", text)
    assert "from 1024 to 64511" in error_of(capsys, "--", __file__)
    monkeypatch.delenv("TNT_GPI2_PORT")
    assert "TNT_GPI2_PORT" in error_of(capsys, "-x", f"TNT_GPI2_PORT={text}", "--", __file__)


def test_words_of_options_may_be_written_in_any_case_and_with_blanks_around():
    spec = spec_of("--log-level", " debug", "--wire-dtype", "None\t", "a.py")
    assert spec.settings == {"TNT_LOG_LEVEL": "DEBUG", "TNT_WIRE_DTYPE": "none"}


@pytest.mark.parametrize(
    "variable",
    [one for one in USER_VARIABLES if one.name in OPTIONS and isinstance(one.kind, Boolean)],
)
def test_a_switch_sets_its_variable_and_nothing_without_it(variable):
    assert spec_of(OPTIONS[variable.name].name, "a.py").settings == {variable.name: True}
    assert spec_of("a.py").settings == {}


def test_the_version_is_three_lines(capsys):
    assert main(["--version"]) == 0
    name, path, licence = capsys.readouterr().out.splitlines()
    assert name.startswith("tarantella ")
    assert path.endswith("tnt_launch")
    assert "Apache-2.0" in licence


def test_help_shows_every_option_and_loads_nothing_that_is_slow():
    program = (
        "import sys\n"
        "from tnt_launch.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as e:\n    assert e.code == 0\n"
        f"print('loaded', sorted(set({HEAVY_MODULES}) & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n" + program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "loaded []"
    for option in ("-np N", "--no-gpus", "--npernode", "-x KEY=VALUE", "--dry-run", "examples:"):
        assert option in done.stdout


@pytest.mark.parametrize("options", ["--version", "--no-gpu --dry-run -- train.py"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough_gets_no_traceback(tmp_path, unbuffered, options):
    (tmp_path / "train.py").touch()
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "tnt_launch", *options.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
