"""Variables that the user sets are accepted in one grammar, or named."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.errors import LaunchError
from tnt_launch.planning.grammar import Boolean, Integer, Seconds
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import JOB_VARIABLES, USER_VARIABLES

SPEC = LaunchSpec(program=("train.py",))
WORDS = {"1": True, "true": True, "YES": True, "On": True}
WORDS |= {"0": False, "False": False, "no": False, "OFF": False}
FULLWIDTH_10, ARABIC_5, DOTLESS_I = "\uff11\uff10", "\u0665", "\u0131"
NOT_INTEGERS = ["", " ", "+5", "-5", "1_0", "0x10", "5.0", "1e3", FULLWIDTH_10, ARABIC_5, "5 5"]
NOT_SECONDS = ["", " ", "0", "0.0", "-1", "+1", "nan", "inf", "1_0", "0x1p3", "1e999", ".", "1e"]


def written(environment):
    return read_settings(SPEC, environment).environment()


@pytest.mark.parametrize(("word", "value"), WORDS.items())
def test_booleans_have_eight_words_in_any_case(word, value):
    assert Boolean().read(word) is value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TNT_TRANSPORT", "gpi2"),
        ("TNT_TIMEOUT_S", "0.5"),
        ("TNT_FUSION_THRESHOLD_KB", "0"),
        ("TNT_FUSION_THRESHOLD_KB", "auto"),
        ("TNT_WIRE_DTYPE", "bfloat16"),
        ("TNT_LOG_LEVEL", "debug"),
        ("TNT_NUM_THREADS", "1"),
        ("TNT_GPUS_PER_NODE", "0"),
        ("TNT_GPI2_LIBRARY", "/a path/lib.so"),
        ("TNT_TIMELINE", "runs/a b.json"),
        ("TNT_ALLREDUCE_ALGORITHM", "halving_doubling"),
        ("TNT_OF_SOMEBODY_ELSE", "anything"),
    ],
)
def test_good_values_pass(name, value):
    read_settings(SPEC, {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TNT_TRANSPORT", "mpi"),
        ("TNT_TIMEOUT_S", "0"),
        ("TNT_TIMEOUT_S", "nan"),
        ("TNT_STALL_S", "soon"),
        ("TNT_FUSION_THRESHOLD_KB", "-1"),
        ("TNT_FUSION_THRESHOLD", "32kB"),
        ("TNT_WIRE_DTYPE", "float32"),
        ("TNT_LOG_LEVEL", "LOUD"),
        ("TNT_LOG_LEVEL", DOTLESS_I + "nfo"),  # upper() makes INFO of it
        ("TNT_LOG_ON_ALL_DEVICES", ""),
        ("TNT_OUTPUT_ON_ALL_DEVICES", "2"),
        ("TNT_NUM_THREADS", "0"),
        ("TNT_GPUS_PER_NODE", "all"),
        ("TNT_GPI2_PORT", "65000"),
        ("TNT_GPI2_PORT", "20_000"),
        ("TNT_TIMELINE", ""),
        ("TNT_TIMELINE", " \t"),
        ("TNT_ALLREDUCE_ALGORITHM", "ring"),
    ],
)
def test_bad_values_are_named_with_their_variable(name, value):
    with pytest.raises(LaunchError, match=name) as caught:
        read_settings(SPEC, {name: value})
    assert repr(value) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [*NOT_INTEGERS, "9" * 5000], ids=lambda text: text[:9])
def test_integers_are_ascii_digits_only(text):
    with pytest.raises(ValueError, match="it must be an integer of at least 0"):
        Integer(0).read(text)


@pytest.mark.parametrize("text", [*NOT_SECONDS, ARABIC_5])
def test_seconds_are_decimal_finite_and_positive(text):
    with pytest.raises(ValueError, match="it must be a number of seconds greater than 0"):
        Seconds().read(text)


def test_limits_belong_to_the_range():
    port = Integer(1024, 64511)
    assert [port.read(text) for text in ("1024", "64511")] == [1024, 64511]
    for text in ("1023", "64512"):
        with pytest.raises(ValueError, match="it must be an integer from 1024 to 64511"):
            port.read(text)


@pytest.mark.parametrize(
    ("name", "text", "canonical"),
    [
        ("TNT_TRANSPORT", " SHM", "shm"),
        ("TNT_TIMEOUT_S", " 5", "5"),
        ("TNT_TIMEOUT_S", "1e3\n", "1000"),
        ("TNT_TIMEOUT_S", ".5", "0.5"),
        ("TNT_FUSION_THRESHOLD_KB", "\t064 ", "64"),
        ("TNT_FUSION_THRESHOLD_KB", "AUTO", "auto"),
        ("TNT_WIRE_DTYPE", "BFloat16", "bfloat16"),
        ("TNT_LOG_LEVEL", " info", "INFO"),
        ("TNT_LOG_ON_ALL_DEVICES", "YES ", "1"),
        ("TNT_OUTPUT_ON_ALL_DEVICES", "off", "0"),
        ("TNT_TIMELINE", " a b.json ", "a b.json"),
        ("TNT_GPI2_LIBRARY", "  ", ""),
    ],
)
def test_ranks_get_the_canonical_form(name, text, canonical):
    assert written({name: text}) == {name: canonical}
    assert read_settings(LaunchSpec(program=("a",), exports=((name, text),)), {}).environment() == {
        name: canonical
    }


@given(value=st.floats(min_value=1e-300, allow_infinity=False))
def test_seconds_are_written_so_that_they_are_read_as_the_same_number(value):
    assert Seconds().read(Seconds().write(value)) == value


@given(value=st.integers(0, 2**31 - 1), blanks=st.text(string.whitespace, max_size=3))
def test_blanks_around_a_value_are_ignored(value, blanks):
    assert Integer(0).read(f"{blanks}{value}{blanks}") == value


def test_no_name_is_listed_twice_and_all_are_ours():
    names = [variable.name for variable in USER_VARIABLES] + list(JOB_VARIABLES)
    assert len(set(names)) == len(names)
    assert all(name.startswith("TNT_") for name in names)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("TNT_TIMEOUT", "TNT_TIMEOUT_S"),
        ("TNT_LOGLEVEL", "TNT_LOG_LEVEL"),
        ("TNT_FUSION_THRESHOLD_MB", "TNT_FUSION_THRESHOLD_KB"),
        ("TNT_NUM_THREAD", "TNT_NUM_THREADS"),
    ],
)
def test_an_unknown_name_is_warned_about_with_a_known_one_that_resembles_it(name, nearest):
    from_environment = read_settings(SPEC, {name: "1", "OTHER": "x", "TNT_RANK": "junk"})
    from_option = read_settings(LaunchSpec(program=("a",), exports=((name, "1"),)), {})
    for settings in (from_environment, from_option):
        (warning,) = settings.warnings
        assert warning.startswith(f"{name} is not a variable of Tarantella")
        assert warning.endswith(f" Did you mean {nearest}? [unknown-variable]")
    assert from_option.environment() == {name: "1"}  # it may mean something to the script


def test_a_name_that_resembles_none_is_warned_about_alone():
    (warning,) = read_settings(SPEC, {"TNT_FOO": "1"}).warnings
    assert warning == (
        "TNT_FOO is not a variable of Tarantella and has no effect on it. [unknown-variable]"
    )


def test_known_names_are_not_warned_about():
    assert read_settings(SPEC, {"TNT_LOG_LEVEL": "INFO", "TNT_JOB_ID": "x"}).warnings == ()


def test_a_malformed_value_that_is_replaced_does_no_harm():
    spec = LaunchSpec(
        program=("a",), settings={"TNT_LOG_LEVEL": "INFO"}, exports=(("TNT_TIMEOUT_S", "3"),)
    )
    settings = read_settings(spec, {"TNT_LOG_LEVEL": "LOUD", "TNT_TIMEOUT_S": "soon"})
    assert settings.environment() == {"TNT_LOG_LEVEL": "INFO", "TNT_TIMEOUT_S": "3"}


def test_two_names_of_the_fusion_threshold_may_agree_but_not_disagree():
    both = ("TNT_FUSION_THRESHOLD_KB", "TNT_FUSION_THRESHOLD")
    written(dict(zip(both, ("64", "064"), strict=True)))
    written(dict(zip(both, ("auto", "AUTO"), strict=True)))
    for texts in (("64", "32"), ("auto", "32")):
        with pytest.raises(LaunchError, match="disagree"):
            written(dict(zip(both, texts, strict=True)))
