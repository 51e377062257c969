"""Ranks get exactly what was planned, and their output arrives whole."""

import json
import os
import pty
import re
import subprocess

import pytest
from launched import environment

WORDS = ["a b", "it's", '"q"', "x\ny", "ü=ß €", "$HOME", "`id`", "*", "", "--", "-n", "\\", "a=b"]
DUMP = """
with open(f"seen-{rank}.json", "w") as file:
    import json
    json.dump({"argv": sys.argv, "environment": dict(os.environ)}, file)
"""


def seen(folder, rank):
    return json.loads((folder / f"seen-{rank}.json").read_text())


def test_arguments_reach_every_rank_exactly(launch, tmp_path):
    assert launch(["-n", "2"], DUMP, *WORDS).end()[0] == 0
    for rank in range(2):
        assert seen(tmp_path, rank)["argv"] == ["script.py", *WORDS]


def test_variables_reach_every_rank_exactly(launch, tmp_path):
    exports = [f"V{number}={word}" for number, word in enumerate(WORDS)]
    assert launch(["-n", "2", "-x", *exports, "-x", "LAST=1"], DUMP).end()[0] == 0
    for rank in range(2):
        found = seen(tmp_path, rank)["environment"]
        assert [found[f"V{number}"] for number in range(len(WORDS))] == WORDS
        assert found["LAST"] == "1"


def test_every_rank_finds_its_place_in_one_job(launch, tmp_path):
    assert launch(["-n", "3", "--fusion-threshold", "64"], DUMP).end()[0] == 0
    found = [seen(tmp_path, rank)["environment"] for rank in range(3)]
    assert [e["TNT_RANK"] for e in found] == ["0", "1", "2"]
    assert {e["TNT_SIZE"] for e in found} == {"3"}
    assert len({e["TNT_JOB_ID"] for e in found}) == 1
    assert {e["TNT_FUSION_THRESHOLD_KB"] for e in found} == {"64"}


def test_the_dry_run_prints_the_plan_that_is_executed(launch, tmp_path):
    options = ["-n", "2", "-x", "A=x y"]
    dry = launch([*options, "--dry-run"], DUMP, *WORDS).end()
    assert dry[0] == 0
    assert not (tmp_path / "pid-0").exists()
    assert launch(options, DUMP, *WORDS).end()[0] == 0
    executed = [seen(tmp_path, rank) for rank in range(2)]
    commands = re.split(r"^# rank \d+ on .*\n", dry[1], flags=re.MULTILINE)[1:]
    for rank, command in enumerate(commands):
        subprocess.run(["sh", "-c", command], cwd="/", env=environment(), timeout=60, check=True)
        printed = seen(tmp_path, rank)
        assert printed["argv"] == executed[rank]["argv"]
        # The plan does not say it: the hosts of a job may be in several of a scheduler.
        assert executed[rank]["environment"].pop("TNT_SCHEDULER_JOB") == ""
        for variables in (printed["environment"], executed[rank]["environment"]):
            for name in ("TNT_JOB_ID", "PYTHONHASHSEED"):  # new ones for each job
                assert variables.pop(name)
            for name in ("PWD", "OLDPWD", "_", "SHLVL", "LINES", "COLUMNS"):  # the shell's own
                variables.pop(name, None)
        assert printed["environment"] == executed[rank]["environment"]


def test_only_rank_0_is_heard_on_stdout_and_all_on_stderr(launch):
    script = 'print("out", rank); print("err", rank, file=sys.stderr)'
    exit_code, out, err = launch(["-n", "3"], script).end()
    assert exit_code == 0
    assert out == "out 0\n"
    assert sorted(err.splitlines()) == ["[1] err 1", "[2] err 2", "err 0"]


def test_all_ranks_are_heard_if_asked_for(launch):
    exit_code, out, _ = launch(["-n", "3", "--output-on-all-devices"], 'print("out", rank)').end()
    assert exit_code == 0
    assert sorted(out.splitlines()) == ["[1] out 1", "[2] out 2", "out 0"]


def test_all_ranks_are_heard_if_the_environment_asks_for_it(launch):
    user = {"TNT_OUTPUT_ON_ALL_DEVICES": "yes"}
    assert "[1] out 1\n" in launch(["-n", "2"], 'print("out", rank)', env=user).end()[1]


MANY_LINES = """
line = "rank %d line %d " + chr(97 + rank) * 1000 + "\\n"
data = "".join(line % (rank, number) for number in range(2500)).encode()
for begin in range(0, len(data), 777):  # nearly every write ends within a line
    os.write(1, data[begin : begin + 777])
announce(1, f"written-{rank}")
"""


@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT], ids=["two", "one"])
def test_ten_thousand_long_lines_of_four_ranks_are_not_mixed(launch, stderr):
    script = MANY_LINES + 'print("done", file=sys.stderr)'
    job = launch(["-n", "4", "--output-on-all-devices"], script, stderr=stderr)
    exit_code, out, _ = job.end()
    assert exit_code == 0
    lines = [line for line in out.splitlines() if "done" not in line]
    for rank in range(4):
        prefix = f"[{rank}] " if rank > 0 else ""
        own = [line for line in lines if f"rank {rank} " in line]
        assert own == [
            f"{prefix}rank {rank} line {n} " + chr(97 + rank) * 1000 for n in range(2500)
        ]
    assert len(lines) == 10_000


def test_a_reader_who_is_slow_makes_ranks_wait_and_loses_nothing(launch):
    job = launch(["-n", "2", "--output-on-all-devices"], MANY_LINES)
    job.pids(2)
    with pytest.raises(subprocess.TimeoutExpired):
        job.process.wait(timeout=1.0)
    assert not list(job.folder.glob("written-*"))
    exit_code, out, _ = job.end()
    assert exit_code == 0
    assert len(out.splitlines()) == 5000


def test_bytes_of_rank_0_pass_unchanged(launch, tmp_path):
    script = 'os.write(1, bytes(range(256)) * 2 + b"\\r 1/2"); time.sleep(0.2); os.write(1, b"!")'
    with open(tmp_path / "out", "wb") as file:
        assert launch(["-n", "2"], script, stdout=file).end()[0] == 0
    assert (tmp_path / "out").read_bytes() == bytes(range(256)) * 2 + b"\r 1/2!"


def test_a_file_grows_while_rank_0_writes(launch, tmp_path):
    script = 'print("early"); announce(1, f"written-{rank}"); wait_for("go")'
    job = launch(["-n", "2"], script)
    job.pid("written-0")
    assert job.process.stdout.readline() == b"early\n"
    (tmp_path / "go").touch()
    assert job.end()[0] == 0


@pytest.mark.parametrize("options", [[], ["--output-on-all-devices"]])
def test_rank_0_has_the_terminal_of_the_launcher_and_the_others_have_not(launch, options):
    main, terminal = pty.openpty()
    try:
        # One string, which is written at once: rank 0 and the launcher share the terminal.
        script = (
            'announce(int(sys.stdout.isatty()), f"tty-{rank}")\n'
            'print("said " + (input() if rank == 0 else "nothing"))\n'
        )
        job = launch(["-n", "2", *options], script, stdin=terminal, stdout=terminal)
        os.write(main, b"typed\n")
        assert job.end()[0] == 0
        assert [job.pid(f"tty-{rank}") for rank in range(2)] == [1, 0]
        assert b"said typed" in os.read(main, 4096)
    finally:
        os.close(main)
        os.close(terminal)


def test_rank_0_reads_stdin_and_the_others_nothing(launch, tmp_path):
    (tmp_path / "in").write_text("question")
    with open(tmp_path / "in") as file:
        job = launch(
            ["-n", "2", "--output-on-all-devices"], "print([sys.stdin.read()])", stdin=file
        )
        lines = job.end()[1].splitlines()
    assert sorted(lines) == ["['question']", "[1] ['']"]


def test_an_interpreter_with_options_runs_the_script(launch):
    import sys

    options = ["--python-interpreter", f"{sys.executable} -X dev=1 -O"]
    assert launch(options, "print(sys.flags.optimize)").end()[:2] == (0, "1\n")


def test_a_program_runs_without_an_interpreter(launch, tmp_path):
    (tmp_path / "program").write_text('#!/bin/sh\necho "$TNT_RANK of $TNT_SIZE"\n')
    (tmp_path / "program").chmod(0o700)
    job = launch(["-n", "2", "--python-interpreter", "", "--", "./program"], "")
    assert job.end()[:2] == (0, "0 of 2\n")


def test_the_job_is_described_at_level_info(launch):
    _, _, err = launch(["-n", "2", "--log-level", "INFO"], "").end()
    assert f"INFO: 2 ranks on {os.uname().nodename}, device CPU, threads per rank: " in err


@pytest.mark.parametrize("level", ["WARNING", "INFO"])
def test_without_a_number_and_a_gpu_one_rank_runs_without_a_warning(launch, tmp_path, level):
    job = launch(["--log-level", level], DUMP, env={"CUDA_VISIBLE_DEVICES": ""}, device="")
    exit_code, _, err = job.end()
    assert exit_code == 0
    assert (err == "") == (level == "WARNING")
    assert ("INFO: no GPU found: one rank runs on the CPU\n" in err) == (level == "INFO")
    assert seen(tmp_path, 0)["environment"]["TNT_SIZE"] == "1"


def test_an_unknown_variable_is_warned_about(launch):
    _, _, err = launch(["-x", "TNT_TIMEOUT=5"], "").end()
    assert err == (
        "tarantella: WARNING: TNT_TIMEOUT is not a variable of Tarantella and has no effect on it. "
        "Did you mean TNT_TIMEOUT_S? [unknown-variable]\n"
    )


NOTE_OF_RANK_1 = """
note = f"/dev/shm/tnt-{os.environ['TNT_JOB_ID']}-ended-1"
def announce_note():
    wait_for(note)
    announce(open(note).read().split()[-1], "how")
"""


def test_the_end_of_a_rank_is_noted_where_others_find_it(launch):
    script = NOTE_OF_RANK_1 + "if rank == 1: sys.exit(0)\nannounce_note()\nprint(note)"
    job = launch(["-n", "2", "--log-level", "INFO"], script)
    exit_code, out, err = job.end()
    assert exit_code == 0
    assert (job.folder / "how").read_text() == "0"
    assert not os.path.exists(out.strip())
    assert "left behind" not in err


def test_shared_memory_left_behind_is_removed_and_told(launch):
    script = 'open("/dev/shm/tnt-" + os.environ["TNT_JOB_ID"] + "-left", "w").close()'
    exit_code, _, err = launch(["--log-level", "INFO"], script).end()
    assert exit_code == 0
    (path,) = re.findall(r"left behind: (\S+)", err)
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("device", "options", "seen_by_ranks"),
    [
        ("", [], ["2", "3"]),
        ("", ["-n", "1"], ["2"]),
        ("", ["-x", "CUDA_VISIBLE_DEVICES=1,0"], ["1", "0"]),
        ("--no-gpu", ["-n", "2"], ["-1", "-1"]),
    ],
)
def test_ranks_share_the_gpus_that_the_user_lists(launch, tmp_path, device, options, seen_by_ranks):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nfor i in 0 1 2 3; do echo GPU $i: A; done\n")
    tool.chmod(0o700)
    user = {"CUDA_VISIBLE_DEVICES": "2,3", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    job = launch(options, DUMP, device=device, env=user)
    assert job.end()[0] == 0
    found = [seen(tmp_path, rank)["environment"] for rank in range(len(seen_by_ranks))]
    assert [variables["CUDA_VISIBLE_DEVICES"] for variables in found] == seen_by_ranks
    assert found[0]["TNT_SIZE"] == str(len(seen_by_ranks))
