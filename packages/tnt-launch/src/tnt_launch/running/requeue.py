"""`--requeue`: ask the scheduler that has ended a job to run it again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from tnt_launch.errors import LaunchError
from tnt_launch.log import say
from tnt_launch.running.ending import LEFT

ANSWER_S = 5.0  # that a scheduler's command has; the job itself is killed soon
_RERUN_OF_GRID_ENGINE = 99
_NO_JOB = (
    "--requeue needs a batch job of SLURM, Grid Engine or PBS, and this is none: neither "
    "SLURM_JOB_ID, nor JOB_ID and RESTARTED, nor PBS_JOBID is set. Leave --requeue out, or give "
    "the command in a batch script."
)


@dataclass(frozen=True)
class Scheduler:
    """The scheduler whose job this is, and how it is asked."""

    name: str
    job_id: str
    command: tuple[str, ...] = ()  # none: an exit code asks
    exit_code: int = LEFT  # of the launcher
    num_restarts: int = 0  # of the job, when it began to run

    def ask(self) -> int:
        """Ask to run the job again, say what came of it, and return the exit code."""
        if not self.command:
            say(f"exit code {self.exit_code} asks {self.name} to run job {self.job_id} again")
            return self.exit_code
        try:
            why_not = self._why_not()
            if not why_not:
                _run(self.command)
        except LaunchError as error:
            say(f"{self.name} does not run job {self.job_id} again: {error}")
            return self.exit_code
        if why_not:
            say(f"{self.name} is not asked to run job {self.job_id} again: {why_not}")
        else:
            say(f"{self.name} runs job {self.job_id} again: {' '.join(self.command)}")
        return self.exit_code

    def _why_not(self) -> str:
        """Return why not to ask; what a user has cancelled must not come again."""
        if self.name != "SLURM":
            return ""
        fields = _slurm_fields(self.job_id)
        if int(fields.get("Restarts", "0")) > self.num_restarts:
            return "it is already queued again"  # as after a preemption
        is_over = fields.get("JobState") not in ("RUNNING", "SUSPENDED")
        is_at_limit = fields.get("Reason") == "TimeLimit"
        return "it has been cancelled" if is_over and not is_at_limit else ""


def scheduler_to_ask(environment: Mapping[str, str]) -> Scheduler:
    """Find the scheduler whose job this is; a LaunchError says why it cannot be asked. Local."""
    if "SLURM_JOB_ID" in environment:
        return _slurm(environment["SLURM_JOB_ID"], int(environment.get("SLURM_RESTART_COUNT", 0)))
    if "JOB_ID" in environment and "RESTARTED" in environment:
        return Scheduler("Grid Engine", environment["JOB_ID"], exit_code=_RERUN_OF_GRID_ENGINE)
    if "PBS_JOBID" in environment:
        job_id = environment["PBS_JOBID"]
        return Scheduler("PBS", job_id, (_found("qrerun"), job_id))
    raise LaunchError(_NO_JOB)


def _slurm(job_id: str, num_restarts: int) -> Scheduler:
    command = (_found("scontrol"), "requeue", job_id)
    scheduler = Scheduler("SLURM", job_id, command, num_restarts=num_restarts)
    fields = _slurm_fields(job_id)
    if fields.get("BatchFlag") == "0":
        raise LaunchError(
            f"--requeue: SLURM runs only batch jobs again, but job {job_id} was started by salloc "
            "or srun. Start it with sbatch, or leave --requeue out."
        )
    if fields.get("Requeue") == "0":
        raise LaunchError(
            f"--requeue: SLURM may not run job {job_id} again. Submit it with `sbatch --requeue`."
        )
    return scheduler


def _slurm_fields(job_id: str) -> dict[str, str]:
    """Return what SLURM tells of a job; of values with blanks only their first words."""
    text = _run((_found("scontrol"), "--oneliner", "show", "job", job_id))
    pairs = (word.partition("=") for word in text.split())
    return {name: value for name, equals, value in reversed([*pairs]) if equals}


def _found(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise LaunchError(
            f"--requeue needs the command {name}, which is not in PATH here. Add its folder to "
            "PATH, or leave --requeue out."
        )
    return path


def _run(command: tuple[str, ...]) -> str:
    text = " ".join(command)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(f"`{text}` did not answer within {ANSWER_S:g} s") from None
    except OSError as error:
        raise LaunchError(f"`{text}`: {error.strerror}") from None
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip() or "no message"
        raise LaunchError(f"`{text}`: {told} (exit code {done.returncode})")
    return done.stdout.decode(errors="replace")
