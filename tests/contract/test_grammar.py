"""Launcher, tnt-keras and tnt-comm accept the same texts and read the same values of them.

The launcher's table names the kind of every variable, with the grammar that tnt-keras has a copy
of, and that tnt-comm has in C++. Of every kind there are texts here that are
right, with their values, and texts that are wrong; whoever reads a variable is asked about each.
"""

import json
import pathlib
import subprocess
import sys

import pytest
import write_environment

from tnt_keras.process import rank as keras_rank
from tnt_launch.errors import LaunchError
from tnt_launch.planning.command_line import make_spec, parse_arguments
from tnt_launch.planning.grammar import Boolean, Integer, IntegerOrAuto, Path, Seconds, Word
from tnt_launch.planning.kinds import Counts, HostAndPort, Text
from tnt_launch.planning.options import make_parser
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.variables import OPTIONS, USER_VARIABLES

ROOT = pathlib.Path(__file__).parents[2]
ARABIC_5, FULLWIDTH_5, NO_BREAK_SPACE = "\u0665", "\uff15", "\u00a0"
BLANK = ["", " ", "\t\n\r\v\f "]


def integers(minimum, maximum=2**31 - 1):
    inside = minimum + 1
    good = {str(value): value for value in (minimum, inside, maximum)}
    good |= {f"00{inside}": inside, f" {inside}": inside, f"{inside}\n": inside}
    bad = [f"+{inside}", f"-{inside}", "1_0", "20_000", "0x10", f"{inside}.0", "1e4", "many"]
    bad += ["5" + ARABIC_5 * 4, FULLWIDTH_5 * 5, f"{inside}{NO_BREAK_SPACE}", f"{inside} 0"]
    bad += [str(minimum - 1), str(maximum + 1), "9" * 30, "9" * 5000]
    return good, [*bad, *BLANK]


def words(choices):
    good = {choice: choice for choice in choices}
    good |= {choice.upper(): choice for choice in choices}
    good |= {f"\t{choice.capitalize()} ": choice for choice in choices}
    return good, [*BLANK, "none of them", choices[0] + "x", choices[0] + NO_BREAK_SPACE, ","]


SECONDS = {"5": 5.0, " 5": 5.0, "0.5": 0.5, ".5": 0.5, "5.": 5.0, "1e3": 1000.0, "2.5E-1\n": 0.25}
NOT_SECONDS = [*BLANK, "0", "0.0", "-1", "+5", "1_0", "nan", "inf", "infinity", "0x10", "0x1p3"]
NOT_SECONDS += ["1e999", "5 s", "5s", ".", "1e", "e3", "5,0", ARABIC_5, FULLWIDTH_5]
BOOLEANS = dict.fromkeys(("1", "true", "YES", "On", " 1\n"), True)
BOOLEANS |= dict.fromkeys(("0", "False", "no", "OFF", "\tfalse "), False)
NOT_BOOLEANS = [*BLANK, "2", "01", "y", "t", "+1", "enabled", FULLWIDTH_5, "1" + NO_BREAK_SPACE]

COUNTS = {text: text.strip() for text in ("1", "01", " 1x1\n", "1x01x1")}
NOT_COUNTS = [*BLANK, "x", "1x", "x1", "1 x1", "1X1", "1,1", "0", "-1", "+1", "1x0", "six"]
NOT_COUNTS += ["9" * 30, FULLWIDTH_5, "1x" + ARABIC_5]

RENDEZVOUS = {text: text.strip() for text in ("a:1", "10.0.0.1:65535", " [fe80::1]:80\n")}
NOT_RENDEZVOUS = [*BLANK, "a", ":1", "a:", "a:0", "a:65536", "fe80::1:80", "a:80x", "[]:80"]
NOT_RENDEZVOUS += ["a:-1", "a:+1", "a:" + ARABIC_5, "a b:80"]

good_numbers, bad_numbers = integers(0)
THRESHOLDS = ({**good_numbers, "auto": "auto", " AUTO\n": "auto"}, [*bad_numbers, "automatic"])


def texts_of(variable):
    """Texts of a variable that are right, with their values, and texts that are wrong."""
    kind = variable.kind
    if isinstance(kind, Integer):
        return integers(kind.minimum, kind.maximum)
    if isinstance(kind, Word):
        return words(kind.words)
    if isinstance(kind, Path):
        good = {"a.so": "a.so", " a b.so\n": "a b.so"}
        return (good | {"": "", " ": ""}, []) if kind.may_be_blank else (good, BLANK)
    if isinstance(kind, Text):
        least = kind.least_bytes
        good = {"a" * least: "a" * least, f" {'b:0/8' * 4}\t": "b:0/8" * 4}
        return good, [*BLANK, "a" * (least - 1)] if least else []
    return {
        Boolean: (BOOLEANS, NOT_BOOLEANS),
        Counts: (COUNTS, NOT_COUNTS),
        HostAndPort: (RENDEZVOUS, NOT_RENDEZVOUS),
        IntegerOrAuto: THRESHOLDS,
        Seconds: (SECONDS, NOT_SECONDS),
    }[type(kind)]


def readers(package):
    _, settings = write_environment.read_table(ROOT)
    names = [one["name"] for one in settings if package in one["read_by"]]
    return [variable for variable in USER_VARIABLES if variable.name in names]


def named(variables):
    return pytest.mark.parametrize("variable", variables, ids=lambda variable: variable.name)


def launcher_reads(variable, text):
    """Value and canonical text, or `None` if the launcher refuses."""
    try:
        value = variable.read(text)
    except ValueError as error:
        if variable.name not in str(error):
            raise
        return None
    return value, variable.kind.write(value)


@named(USER_VARIABLES)
def test_the_launcher_reads_every_value(variable):
    good, bad = texts_of(variable)
    found = {text: launcher_reads(variable, text) for text in good}
    assert {text: value for text, (value, _) in found.items()} == good
    assert [text for text in bad if launcher_reads(variable, text) is not None] == []


def option_reads(option, variable, text):
    """Value that the launcher reads of an option, or `None` if it refuses."""
    try:
        spec = make_spec(parse_arguments(make_parser(), [f"{option}={text}", "--", "a.py"]), {})
    except LaunchError as error:
        if option not in str(error):
            raise
        return None
    return read_settings(spec, {}).get(variable)


@pytest.mark.parametrize(
    ("option", "variable"),
    [
        (OPTIONS[one.name].name, one)
        for one in USER_VARIABLES
        if one.name in OPTIONS and not isinstance(one.kind, Boolean)
    ],
)
def test_options_read_what_their_variables_read(option, variable):
    good, bad = texts_of(variable)
    assert {text: option_reads(option, variable, text) for text in good} == good
    assert [text for text in bad if option_reads(option, variable, text) is not None] == []


@named(USER_VARIABLES)
def test_canonical_texts_are_plain_and_mean_the_same(variable):
    for value in texts_of(variable)[0].values():
        text = variable.kind.write(value)
        assert text == text.strip()
        assert launcher_reads(variable, text) == (value, text)


def keras_value(name, settings):
    """The value of a variable in the terms of the launcher."""
    if name.startswith("TNT_FUSION_THRESHOLD"):
        size = settings.fusion_threshold_bytes
        return "auto" if size is None else size // 1024
    return {
        "TNT_LOG_LEVEL": settings.log_level,
        "TNT_LOG_ON_ALL_DEVICES": settings.log_on_all_ranks,
        "TNT_OUTPUT_ON_ALL_DEVICES": settings.output_on_all_ranks,
        "TNT_CHECK_STEPS": settings.checks_steps,
        "TNT_EXPLAIN_STEPS": settings.explains_steps,
        "TNT_TENSORBOARD_ON_ALL_DEVICES": settings.tensorboard_on_all_ranks,
        "TNT_WIRE_DTYPE": settings.wire_dtype or "none",
        "TNT_LANES": settings.lanes,
        "TNT_STEP_HASHES": settings.step_hashes,
        "TNT_MOVE_WEIGHTS": settings.moves_weights,
        "TNT_GPUS_PER_NODE": settings.gpus_per_node,
        "TNT_GRACE_S": settings.grace_s,
        "TNT_NUM_THREADS": settings.num_threads,
    }[name]


def keras_reads(name, text):
    """Value, or `None` if tnt-keras refuses."""
    try:
        return keras_value(name, keras_rank.read_settings({name: text}))
    except ValueError as error:
        if name not in str(error):
            raise
        return None


@named(readers("tnt-keras"))
def test_tnt_keras_reads_what_the_launcher_reads(variable):
    good, bad = texts_of(variable)
    assert {text: keras_reads(variable.name, text) for text in good} == good
    assert [text for text in bad if keras_reads(variable.name, text) is not None] == []
    for value in good.values():
        assert keras_reads(variable.name, variable.kind.write(value)) == value


def test_tnt_keras_knows_no_settings_but_those_of_the_table():
    fields = vars(keras_rank.Settings())
    assert len(fields) == len(readers("tnt-keras")) - 1  # two names of one threshold


# Whoever has joined a job stays in it, so that every text gets a process: a fork of one that has
# not joined. Text that is refused is a ValueError; what is accepted may not work (a path).
ASK_TNT_COMM = """
import json, os, sys
import tnt_comm

def is_accepted(name, text):
    os.environ[name] = text
    try:
        tnt_comm.init()
    except ValueError as error:
        return name not in str(error)
    except tnt_comm.CommError:
        pass
    return True

answers = []
for name, text in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        os._exit(int(is_accepted(name, text)))
    answers.append(bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def accepted_by_tnt_comm(tmp_path_factory):
    """Whether tnt-comm accepts a text, for every variable that it reads and every text."""
    questions = []
    for variable in readers("tnt-comm"):
        good, bad = texts_of(variable)
        canonical = [variable.kind.write(value) for value in good.values()]
        questions += [(variable.name, text) for text in {*good, *canonical, *bad}]
    finished = subprocess.run(
        [sys.executable, "-c", ASK_TNT_COMM],
        cwd=tmp_path_factory.mktemp("timelines"),
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return dict(zip(questions, json.loads(finished.stdout), strict=True))


@named(readers("tnt-comm"))
def test_tnt_comm_accepts_what_the_launcher_accepts(variable, accepted_by_tnt_comm):
    good, bad = texts_of(variable)
    canonical = [variable.kind.write(value) for value in good.values()]
    name = variable.name
    assert [text for text in [*good, *canonical] if not accepted_by_tnt_comm[name, text]] == []
    assert [text for text in bad if accepted_by_tnt_comm[name, text]] == []
