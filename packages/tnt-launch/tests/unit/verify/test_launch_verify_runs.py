"""The command line of `tarantella verify` becomes runs of the launcher."""

import pytest
from run_files import record, step

from tnt_launch.errors import LaunchError
from tnt_launch.verify.judgement import judge_bits, judge_rounding
from tnt_launch.verify.report import (
    Done,
    details_of_bits,
    details_of_rounding,
    error_line,
    processor_of,
    table_of_bits,
    table_of_rounding,
)
from tnt_launch.verify.runs import read_verify_options, runs_of


def runs(line):
    return runs_of(read_verify_options(line.split()))


def arguments(line):
    return [" ".join(run.arguments) for run in runs(line)]


def test_the_script_runs_twice_on_the_smallest_number_of_ranks_then_on_the_others():
    assert arguments("-n 2,4,1 -- train.py --epochs 1") == [
        f"-n {count} -- train.py --epochs 1" for count in (1, 1, 2, 4)
    ]
    assert arguments("-n 4,2 -- a.py") == [f"-n {count} -- a.py" for count in (2, 2, 4)]


def test_options_of_a_job_are_passed_on():
    line = "--timeout 5 -n 1,2 --lanes 4 -x A=1 --keep d --no-gpu -- a.py --lanes 9"
    expected = "-n 2 --lanes 4 --timeout 5 -x A=1 --no-gpu -- a.py --lanes 9"
    assert arguments(line)[2] == expected


def test_hashes_go_to_the_file_of_the_run():
    (first, *_) = runs("-n 1 --lanes 4 -- a.py")
    assert first.environment({"A": "1"}, "d/x") == {"A": "1", "TNT_STEP_HASHES": "d/x"}
    expected = "env TNT_STEP_HASHES=d/x tarantella -n 1 --lanes 4 -- a.py"
    assert first.command("d/x") == expected


def test_within_serial_the_first_two_runs_are_serial_and_one_has_its_weights_moved():
    found = runs("-n 2,4 --lanes 4 --within serial -- a.py")
    assert [" ".join(run.arguments) for run in found] == [
        "-n 1 -- a.py",
        "-n 1 -- a.py",
        "-n 2 --lanes 4 -- a.py",
        "-n 4 --lanes 4 -- a.py",
    ]
    inherited = {"TNT_LANES": "8", "TNT_MOVE_WEIGHTS": "0", "A": "1"}
    environments = [run.environment(inherited, "x") for run in found]
    assert [one.get("TNT_MOVE_WEIGHTS") for one in environments] == [None, "1", None, None]
    assert [one.get("TNT_LANES") for one in environments] == [None, None, "8", "8"]
    assert found[1].command("x").startswith("env -u TNT_LANES TNT_MOVE_WEIGHTS=1 TNT_STEP_HASHES=x")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("-n 1,2 a.py", "needs -- and a script"),
        ("-n 1,2 --", "needs -- and a script"),
        ("--lanes 4 -- a.py", "-n says on how many ranks"),
        ("-n 1,0 -- a.py", "numbers of at least 1"),
        ("-n one -- a.py", "numbers of at least 1"),
        ("-n 1 --within rounding -- a.py", "one of serial"),
        ("-n 1 --lanes 0 -- a.py", "at least 1"),
    ],
)
def test_what_is_malformed_is_refused(line, why):
    with pytest.raises(LaunchError, match=why):
        runs(line)


STEPS = (step(1, {"loss": 0.5}, {"kernel": "1"}), step(2, {"loss": 0.4}, {"kernel": "2"}))


def done(line, *records):
    seconds = (12.34, 9.0, 101.0)
    return [
        Done(run, one, each) for run, one, each in zip(runs(line), records, seconds, strict=False)
    ]


def test_the_table_has_a_line_for_each_run():
    other = record(STEPS[0], step(2, {"loss": 0.3}, {"kernel": "3"}), size=2, lanes=None)
    records = [record(*STEPS), record(*STEPS), other]
    verdicts = judge_bits(records)
    found = done("-n 1,2 -- a.py", *records)
    first, *lines = table_of_bits(found, verdicts).splitlines()
    assert first.split() == ["run", "ranks", "lanes", "steps", "seconds", "hash"]
    words = [line.split() for line in lines]
    assert [row[:5] for row in words] == [
        ["1", "1", "4", "2", "12.3"],
        ["2", "1", "4", "2", "9.0"],
        ["3", "2", "-", "2", "101.0"],
    ]
    assert words[0][5] == words[1][5] != words[2][5]
    assert [row[6:] for row in words] == [[], ["same"], ["different"]]
    assert list(details_of_bits(found[1], verdicts[1])) == []
    assert list(details_of_bits(found[2], verdicts[2]))[:2] == [
        "run 3 (2 ranks) differs from run 1 first in step 2, train_step of 'net': loss and 1 more",
        "  likely cause: no lanes were given, so that sums are formed in another order on other "
        "numbers of ranks",
    ]


def test_the_table_of_rounding_has_the_largest_ratio():
    records = [record(*STEPS), record(*STEPS), record(STEPS[0], step(2, {"loss": 0.5}), size=2)]
    verdicts = judge_rounding(records)
    found = done("-n 2 --within serial -- a.py", *records)
    words = [line.split()[5:] for line in table_of_rounding(found, verdicts).splitlines()[1:]]
    assert words == [["-", "serial"], ["-", "serial,", "weights", "moved"], ["1e+04", "outside"]]
    assert next(details_of_rounding(found[2], verdicts[2])) == (
        "run 3 (2 ranks): step 2, train_step of 'net': loss is 0.5, serially 0.4, 1e+04 times what "
        "rounding explains"
    )


def test_the_processor_is_told_on_which_the_bits_hold():
    assert processor_of(record()) == (
        "Processor: AMD EPYC (avx2 avx512f). The bits hold between equal processors only."
    )


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (["a", "ValueError: x", "", "bye"], "ValueError: x"),
        (["tarantella: error: no script. [cannot-launch]"], "tarantella: error: no script."),
        (["killed by SIGKILL", ""], "killed by SIGKILL"),
        ([], ""),
    ],
)
def test_of_an_output_the_last_error_is_found(log, line):
    assert error_line(log).startswith(line)
