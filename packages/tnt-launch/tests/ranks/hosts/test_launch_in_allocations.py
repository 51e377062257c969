"""Launchers in jobs of schedulers, of which scripts stand in for the commands that start agents.

They take what the real ones take, and pass on no more: words or a line for a shell, and no input,
output or variables where the real one has none. All hosts are this one, under other names.
"""

import json
import os
import sys

import pytest
from launched import ENDED_WITHIN_S, PROLOGUE, Launched, spawn, wait_until

TELL = """
print(rank, os.environ["TNT_SIZE"], os.environ["TNT_NODE_RANK"], os.environ["MINE"], sys.argv[1:])
"""
MINE = "a 'b' \"c\" $d"
SAID = f"{MINE} ['x y', '--z']"
SLURM = {
    "SLURM_JOB_ID": "11",
    "SLURM_JOB_NODELIST": "alpha,beta",
    "SLURM_NTASKS": "4",
    "SLURM_TASKS_PER_NODE": "2(x2)",
}

# Writes its arguments down, and does what a command does with them.
_STAND_IN = """#!{python}
import json, os, subprocess, sys
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps([os.path.basename(sys.argv[0]), *arguments]) + chr(10))
"""
# As rsh and ssh: host, and what the user's shell there reads, with stdin and stdout.
LIKE_SSH = """
os.execv("/bin/sh", ["sh", "-c", " ".join(arguments[{skip} + 1:])])
"""
# As tm_spawn: words, which no shell reads, neither stdin nor stdout, and the variables of the job.
LIKE_PBS = """
job = {{name: os.environ[name] for name in ("HOME", "PATH", "XDG_CONFIG_HOME")}}
null = subprocess.DEVNULL
sys.exit(subprocess.run(arguments[{skip} + 1:], env=job, stdin=null, stdout=null).returncode)
"""
# As a step of one task on each node.
LIKE_SRUN = """
options = [word for word in arguments if word.startswith("--")]
names = next(o for o in options if o.startswith("--nodelist=")).partition("=")[2].split(",")
command = arguments[len(options):]
assert "--nodes=%d" % len(names) in options and "--ntasks=%d" % len(names) in options
assert not any(n.startswith("SLURM_") for n in os.environ if n != "SLURM_JOB_ID"), os.environ
null = subprocess.DEVNULL
agents = [
    subprocess.Popen(command, env=os.environ | {{"SLURMD_NODENAME": name, "SLURM_NTASKS": "2"}},
                     cwd="/", stdin=null, stdout=null)
    for name in names
]
sys.exit(max(agent.wait() for agent in agents))
"""


class Job:
    """A launcher in the job of a scheduler, and what the stand-in was told."""

    def __init__(self, folder):
        self.folder = folder
        self.log = folder / "log"
        self.processes = []

    def stand_in(self, name, does, skip=0):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        text = _STAND_IN.format(python=sys.executable, log=str(self.log)) + does.format(skip=skip)
        path.write_text(text)
        path.chmod(0o755)

    def start(self, variables, script, *options):
        (self.folder / "script.py").write_text(PROLOGUE + script)
        command = [sys.executable, "-m", "tnt_launch", "--no-gpu", *options]
        own = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "MINE": MINE,
        }
        words = [] if "--" in options else ["--", "script.py", "x y", "--z"]
        process = spawn([*command, *words], self.folder, own | variables)
        self.processes.append(process)
        return Launched(process, self.folder)

    @property
    def told(self):
        """The commands that were given, in any order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines]


@pytest.fixture
def job(tmp_path):
    running = Job(tmp_path)
    yield running
    for process in running.processes:
        process.kill()
        process.communicate()


def hosts_file(tmp_path, text):
    path = tmp_path / "hosts of the job"
    path.write_text(text)
    return str(path)


LINES = "alpha\nalpha\nbeta\nbeta\n"


@pytest.mark.parametrize(
    ("command", "does", "variable", "lines", "others"),
    [
        ("qrsh -inherit", LIKE_SSH, "PE_HOSTFILE", "alpha 2 q u\nbeta 2 q u\n", {}),
        ("blaunch", LIKE_SSH, "LSB_DJOB_HOSTFILE", LINES, {}),
        ("oarsh", LIKE_SSH, "OAR_NODEFILE", LINES, {}),
        ("pbs_tmrsh", LIKE_PBS, "PBS_NODEFILE", LINES, {}),
        ("pbsdsh -h", LIKE_PBS, "PBS_NODEFILE", LINES, {"PBS_VERSION": "TORQUE-6.1.1"}),
    ],
)
def test_each_scheduler_starts_an_agent_on_each_host_by_its_command(
    job, tmp_path, command, does, variable, lines, others
):
    name, *options = command.split()
    job.stand_in(name, does, skip=len(options))
    variables = {variable: hosts_file(tmp_path, lines)} | others
    exit_code, out, err = job.start(variables, TELL, "--output-on-all-devices").end()
    assert (exit_code, err) == (0, "")
    ranks = [f"{rank} 4 {rank // 2} {SAID}" for rank in range(4)]
    where = ["", "[1@alpha] ", "[2@beta] ", "[3@beta] "]
    assert sorted(out.splitlines()) == sorted(map("".join, zip(where, ranks, strict=True)))
    assert sorted(told[: len(options) + 2] for told in job.told) == [
        [name, *options, "alpha"],
        [name, *options, "beta"],
    ]


def test_slurm_starts_all_agents_by_one_step(job):
    job.stand_in("srun", LIKE_SRUN)
    variables = SLURM | {"SLURM_GPUS_PER_TASK": "1", "SLURM_ARRAY_TASK_ID": "7"}
    script = TELL + "print(os.environ['SLURM_ARRAY_TASK_ID'], os.environ['SLURM_NTASKS'])"
    exit_code, out, err = job.start(variables, script).end()
    assert (exit_code, err) == (0, "")
    assert out == f"0 4 0 {SAID}\n7 2\n"
    (told,) = job.told
    for option in ("--overlap", "--export=ALL", "--cpu-bind=none", "--gpus-per-node=2"):
        assert option in told


def test_secrets_are_on_no_command_line(job, tmp_path):
    secret = "a secret that the user has chosen"
    job.stand_in("srun", LIKE_SRUN)
    job.stand_in("pbs_tmrsh", LIKE_PBS)
    for variables in (SLURM, {"PBS_NODEFILE": hosts_file(tmp_path, LINES)}):
        assert job.start(variables, TELL).end()[0] == 0
    (tmp_path / "config" / "tarantella" / "secret").write_text(secret)
    assert job.start(variables, TELL).end()[0] == 0
    assert job.start(SLURM | {"TNT_JOB_SECRET": secret}, TELL).end()[0] == 0
    assert len(job.told) == 6
    assert secret not in job.log.read_text()


def test_the_node_on_which_the_batch_script_runs_needs_no_agent(job):
    job.stand_in("srun", LIKE_SRUN)
    variables = SLURM | {"SLURMD_NODENAME": "beta", "SLURM_GPUS_ON_NODE": "2"}
    assert job.start(variables, TELL).end()[:2] == (0, f"0 4 0 {SAID}\n")
    (told,) = job.told
    assert "--nodelist=alpha" in told


def test_a_job_of_this_host_alone_starts_no_agents(job):
    alone = {"SLURM_JOB_NODELIST": "alpha", "SLURM_TASKS_PER_NODE": "2", "SLURMD_NODENAME": "alpha"}
    assert job.start(SLURM | alone, TELL).end() == (0, f"0 2 0 {SAID}\n", "")
    assert job.told == []


def test_a_script_that_is_not_there_is_told_where_no_agent_looks(job):
    alone = {"SLURM_JOB_NODELIST": "alpha", "SLURM_TASKS_PER_NODE": "2", "SLURMD_NODENAME": "alpha"}
    exit_code, _, err = job.start(SLURM | alone, "", "--", "missing.py").end()
    assert exit_code == 2
    assert "the script 'missing.py' does not exist" in err


def test_options_of_the_users_own_win(job, tmp_path):
    job.stand_in("qrsh", "sys.exit(9)")
    job.stand_in("my-ssh", LIKE_SSH, skip=1)
    variables = {"PE_HOSTFILE": hosts_file(tmp_path, "alpha 2 q u\nbeta 2 q u\n")}
    assert job.start(variables, TELL, "--ssh", "my-ssh -x").end()[0] == 0
    exit_code, out, _ = job.start(variables, TELL, "-H", "localhost:3").end()
    assert (exit_code, out) == (0, f"0 3 0 {SAID}\n")
    assert {told[0] for told in job.told} == {"my-ssh"}


@pytest.mark.parametrize(
    ("name", "does", "why"),
    [
        (
            "srun",
            "sys.exit('srun: error: Unable to create step for job 11: Job has expired')",
            "hosts alpha, beta: srun: error: Unable to create step for job 11: Job has expired "
            "(exit code 1)",
        ),
        (
            "srun",
            "sys.stderr.write('slurmstepd: error: execve(): nowhere' + chr(10)); "
            "sys.exit('srun: error: beta: task 1: Exited with exit code 2')",
            "hosts alpha, beta: slurmstepd: error: execve(): nowhere (exit code 1)",
        ),
        ("other", "", "hosts alpha, beta: srun: No such file or directory"),
        (
            "srun",
            LIKE_SRUN.replace("Popen(command", 'Popen(["/bin/sh", "-c", "exit 3"]'),
            "(exit code 3)",
        ),
    ],
)
def test_a_scheduler_that_starts_no_agents_is_told(job, name, does, why):
    job.stand_in(name, does)
    variables = SLURM | {"PATH": f"{job.folder / 'bin'}"}
    exit_code, _, err = job.start(variables, TELL).end()
    assert exit_code == 2
    assert why in err
    assert len(err.splitlines()) == 1


def test_a_node_that_is_down_is_named_alone(job):
    down = "if any('beta' in word for word in arguments): sys.exit('srun: error: beta is down')\n"
    job.stand_in("srun", down + LIKE_SRUN)
    exit_code, _, err = job.start(SLURM, TELL).end()
    assert exit_code == 2
    assert err == (
        "tarantella: error: host beta: srun: error: beta is down (exit code 1) [cannot-launch]\n"
    )


def test_agents_on_other_hosts_than_those_of_the_job_are_refused(job):
    job.stand_in("srun", LIKE_SRUN.replace('NODENAME": name', 'NODENAME": "gamma"'))
    exit_code, _, err = job.start(SLURM, TELL).end()
    assert exit_code == 2
    assert "hosts alpha, beta: gamma: gamma is not a host of the job" in err


def test_the_job_ends_with_its_launcher_and_with_an_agent(job):
    job.stand_in("srun", LIKE_SRUN)
    launched = job.start(SLURM, "wait_for('never')")
    pids = launched.pids(4)
    launched.process.kill()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), ENDED_WITHIN_S)


def test_launchers_that_srun_has_started_on_each_host_meet(job):
    task = SLURM | {
        "SLURM_JOB_NODELIST": "localhost,other",
        "SLURM_STEP_ID": str(os.getpid()),
        "SLURM_STEP_NODELIST": "localhost,other",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    }
    nodes = [job.start(task | {"SLURM_NODEID": str(n)}, TELL, "-n", "2") for n in (1, 0)]
    assert [node.end() for node in nodes] == [(0, "", ""), (0, f"0 4 0 {SAID}\n", "")]
