"""Each cause of a difference is told, the likeliest first, with what to do about it."""

import json

import pytest
from run_files import end, header, note, record, step

from tnt_launch.verify.hash_file import parse_hash_file
from tnt_launch.verify.judgement import judge_bits, judge_rounding

STEPS = (step(1, {"loss": 0.5}, {"kernel": "1"}), step(2, {"loss": 0.4}, {"kernel": "2"}))
OTHERS = (STEPS[0], step(2, {"loss": 0.3}, {"kernel": "3"}))


def cause(*lines, **values):
    """Of the difference of a run on two ranks, which differs in the second step."""
    first = record(*STEPS)
    return judge_bits([first, first, record(*OTHERS, *lines, size=2, **values)])[2].cause


def cause_of_repeat(*lines, **values):
    return judge_bits([record(*STEPS), record(*OTHERS, *lines, **values)])[1].cause


def test_equal_runs_have_no_cause():
    runs = [record(*STEPS), record(*STEPS), record(*STEPS, size=2)]
    assert [verdict.cause for verdict in judge_bits(runs)] == [None] * 3


def test_fewer_steps_of_a_script_that_ended_early_are_told():
    first = record(*STEPS)
    shorter = record(STEPS[0], size=2, with_end=False)
    found = judge_bits([first, first, shorter])[2].cause
    assert found.text == "it took 1 step, and run 1 took 2, and did not come to its end"


def test_other_steps_are_told():
    first = record(*STEPS)
    other = record(STEPS[0], step(2, kind="test_step"), size=2)
    found = judge_bits([first, first, other])[2].cause
    assert found.text.startswith("it takes other steps: in step 2: test_step of 'net'")


@pytest.mark.parametrize(
    ("values", "text", "remedy"),
    [
        ({"threads": 2}, "threads of an operation differ: 1 and 2", "TNT_NUM_THREADS"),
        ({"threads": None}, "differ: 1 and TensorFlow's choice", "TNT_NUM_THREADS"),
        ({"processor": "Xeon"}, "processors differ: AMD EPYC and Xeon", "equal hosts"),
        ({"instructions": ["avx2"]}, "differ: avx2 avx512f and avx2", "equal hosts"),
        ({"tensorflow": "2.20"}, "versions of TensorFlow differ: 2.21.0 and 2.20", "equal hosts"),
        ({"onednn": "0"}, "TF_ENABLE_ONEDNN_OPTS differ: 1 and 0", "equal hosts"),
        ({"lanes": None}, "no lanes were given", "--lanes 2; or"),
        ({"deterministic": False}, "not deterministic", "enable_op_determinism"),
    ],
)
def test_what_the_run_is_explains_a_difference(values, text, remedy):
    found = cause(**values)
    assert text in found.text
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ("rank", "code looks at the rank or at the number of ranks: train.py:12 asks"),
        ("map", "a function of the dataset gives other elements in each run: train.py:12 asks"),
        ("draw", "numbers are drawn without a seed: train.py:12 asks"),
        ("python", "Python code computes a part of the step or of the data: train.py:12 asks"),
        ("whole", "a part of the step is computed on the whole batch"),
    ],
)
def test_notes_explain_a_difference(about, text):
    assert cause(note(about, "train.py:12 asks")).text.startswith(text)


def test_what_is_known_for_sure_comes_before_what_may_be():
    told = note("rank", "train.py:12 asks for the rank")
    assert "no lanes" in cause(told, threads=2, lanes=None, deterministic=False).text
    assert "threads" in cause(told, threads=2, processor="Xeon", deterministic=False).text
    assert "deterministic" in cause(told, deterministic=False).text
    assert "rank" in cause(note("whole", "a sort"), told).text


def test_lanes_that_all_numbers_of_ranks_can_share_are_proposed():
    first = record(*STEPS, lanes=None)
    runs = [record(*OTHERS, size=size, lanes=None) for size in (3, 4)]
    found = judge_bits([first, first, *runs])[3].cause
    assert found.remedy.startswith("Give --lanes V, with V lanes that all of them can share; or")


@pytest.mark.parametrize(
    ("loss", "is_told"), [(0.7, True), (0.500001, False), (float("nan"), False)]
)
def test_other_weights_at_the_beginning_are_told_if_more_than_rounding_differs(loss, is_told):
    first = record(*STEPS)
    other = record(step(1, {"loss": loss}, {"kernel": "9"}), STEPS[1], size=2)
    found = judge_bits([first, first, other])[2].cause
    assert ("began with other weights" in found.text) == is_told
    assert ("checkpoint" in found.remedy) == is_told


def test_without_numbers_other_weights_are_the_likeliest():
    first = record(step(1, {"output": "0a"}))
    other = record(step(1, {"output": "0b"}), size=2)
    assert "began with other weights" in judge_bits([first, first, other])[2].cause.text


def test_without_a_cause_it_may_be_a_fault_of_ours():
    found = cause()
    assert found.text == "no cause found: this may be a fault of Tarantella"
    assert "--keep" in found.remedy


@pytest.mark.parametrize(
    ("lines", "values", "text", "remedy"),
    [
        ([], {"seeded": False}, "and sets no seed", "set_random_seed"),
        ([note("draw", "a.py:3 draws")], {}, "drawn without a seed: a.py:3 draws", "seed"),
        ([note("rank", "a.py:3 asks")], {}, "not reproducible by itself", "Look for"),
        ([], {"deterministic": False}, "not deterministic", "enable_op_determinism"),
    ],
)
def test_a_script_that_differs_from_itself_is_not_reproducible(lines, values, text, remedy):
    found = cause_of_repeat(*lines, **values)
    assert found.text.startswith("two runs on one number of ranks differ")
    assert text in found.text
    assert remedy in found.remedy


def test_of_a_script_that_differs_from_itself_nothing_else_is_explained():
    runs = [record(*STEPS), record(*OTHERS), record(*OTHERS, size=2, lanes=None)]
    assert "runs 1 and 2 differ" in judge_bits(runs)[2].cause.text


def rounded(*losses, lines=(), **values):
    steps = [step(number, {"loss": loss}) for number, loss in enumerate(losses, start=1)]
    written = [header(**values), *lines, *steps, end()]
    return parse_hash_file(map(json.dumps, written), "hashes.jsonl")


def test_runs_within_rounding_have_no_cause():
    runs = [rounded(1.0, 0.5), rounded(1.0, 0.501), rounded(1.0, 0.495)]
    assert [verdict.cause for verdict in judge_rounding(runs)] == [None] * 3


def test_a_run_outside_of_rounding_has_the_cause_that_its_notes_tell():
    lines = [note("rank", "a.py:3 asks for the rank")]
    runs = [rounded(1.0, 0.5), rounded(1.0, 0.501), rounded(1.0, 0.6, lines=lines, size=2)]
    found = judge_rounding(runs)[2]
    assert max(each.ratio for each in found.deviations) == pytest.approx(10)
    assert "a.py:3 asks for the rank" in found.cause.text


def test_rounding_cannot_be_measured_by_a_script_that_draws_other_numbers():
    found = judge_rounding([rounded(1.0, 0.5), rounded(1.2, 0.5)])[1].cause
    assert found.text.startswith("two serial runs differ by more than rounding")
    unseeded = [rounded(1.0, seeded=False), rounded(1.0, seeded=False)]
    assert "sets no seed" in judge_rounding(unseeded)[1].cause.text


def test_a_run_without_numbers_is_not_within_rounding():
    run = record(step(1, {"output": "0a"}))
    found = judge_rounding([run, run, record(step(1, {"output": "0b"}))])[2].cause
    assert found.text.startswith("there is nothing to compare")


def test_fewer_steps_are_not_within_rounding():
    found = judge_rounding([rounded(1.0, 0.5), rounded(1.0, 0.5), rounded(1.0)])[2]
    assert found.cause.text == "it took 1 step, and run 1 took 2"
