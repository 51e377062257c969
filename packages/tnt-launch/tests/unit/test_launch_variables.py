"""Variables that the user sets are accepted or named."""

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning.variables import check_variables, parse_bool

WORDS = {"1": True, "true": True, "YES": True, "On": True}
WORDS |= {"0": False, "False": False, "no": False, "OFF": False}


@pytest.mark.parametrize(("word", "value"), WORDS.items())
def test_booleans_have_eight_words_in_any_case(word, value):
    assert parse_bool(word) is value


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
    check_variables({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TNT_TRANSPORT", "mpi"),
        ("TNT_TIMEOUT_S", "0"),
        ("TNT_TIMEOUT_S", "nan"),
        ("TNT_STALL_REPORT_S", "soon"),
        ("TNT_FUSION_THRESHOLD_KB", "-1"),
        ("TNT_FUSION_THRESHOLD", "32kB"),
        ("TNT_WIRE_DTYPE", "float32"),
        ("TNT_LOG_LEVEL", "LOUD"),
        ("TNT_LOG_ON_ALL_DEVICES", ""),
        ("TNT_OUTPUT_ON_ALL_DEVICES", "2"),
        ("TNT_NUM_THREADS", "0"),
        ("TNT_GPUS_PER_NODE", "all"),
        ("TNT_TIMELINE", ""),
        ("TNT_ALLREDUCE_ALGORITHM", "ring"),
    ],
)
def test_bad_values_are_named_with_their_variable(name, value):
    with pytest.raises(LaunchError, match=name) as caught:
        check_variables({name: value})
    assert repr(value) in str(caught.value)


def test_two_names_of_the_fusion_threshold_may_agree_but_not_disagree():
    check_variables({"TNT_FUSION_THRESHOLD_KB": "64", "TNT_FUSION_THRESHOLD": "064"})
    with pytest.raises(LaunchError, match="disagree"):
        check_variables({"TNT_FUSION_THRESHOLD_KB": "64", "TNT_FUSION_THRESHOLD": "32"})
    check_variables({"TNT_FUSION_THRESHOLD_KB": "auto", "TNT_FUSION_THRESHOLD": "AUTO"})
    with pytest.raises(LaunchError, match="disagree"):
        check_variables({"TNT_FUSION_THRESHOLD_KB": "auto", "TNT_FUSION_THRESHOLD": "32"})
