"""Gives every test the function that starts a launcher."""

import subprocess
import sys

import pytest
from launched import PROLOGUE, Launched, environment, listen_to_signals


@pytest.fixture
def launch(tmp_path):
    """A function that starts `tarantella` with options, the text of a script, and its arguments."""
    started = []

    def start(options, script, *arguments, env=None, device="--no-gpu", **popen):
        (tmp_path / "script.py").write_text(PROLOGUE + script)
        command = [sys.executable, "-m", "tnt_launch", *device.split(), *options]
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        # Tests in the background of a shell ignore Ctrl-C, under nohup SIGHUP; the launcher must
        # not, here.
        settings |= {"stderr": subprocess.PIPE, "preexec_fn": listen_to_signals, **popen}
        process = subprocess.Popen(
            [*command, *([] if "--" in options else ["--", "script.py"]), *arguments],
            cwd=tmp_path,
            env=environment() | (env or {}),
            start_new_session=True,
            **settings,
        )
        started.append(process)
        return Launched(process, tmp_path)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()  # and with it its ranks, which is tested too
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
