"""`tarantella -H a:2,b:2 -- train.py` on hosts with an sshd gives the bits of one host."""

import contextlib
import io
import json
import os
import runpy
import shlex

import keras  # noqa: F401  so that ranks of one host are forks that have imported TensorFlow
import pytest
from cases import cases
from gpi2_found import needs_gpi2
from rank_pools import ENVIRONMENT
from run_command import ROOT, run_command
from ssh_hosts import ssh_cluster
from ucx_found import needs_ucx

from tnt_comm.testing import run_ranks

# The bits of TensorFlow's own operations depend on its threads, and hosts have more cores each.
OPTIONS = "--no-gpu -x TNT_NUM_THREADS=1"
SCRIPT = "tests/end_to_end/scripts/train_lenet5.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with ssh_cluster(["alpha", "beta", "gamma"], tmp_path_factory.mktemp("ssh")) as made:
        yield made


def result_of(line):
    history, digest = json.loads(line)
    assert len(history["loss"]) == 2
    return history, digest


def print_of_script(script):
    """Run the script on this rank, and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(script)
    return output.getvalue()


def on_one_host(size, preloaded):
    env = {**ENVIRONMENT, "TNT_NUM_THREADS": "1"}
    line, *_ = run_ranks(print_of_script, size, str(ROOT / SCRIPT), env=env, preloaded=preloaded)
    return result_of(line)


def library_of(engine):
    name = f"TNT_{engine.upper()}_LIBRARY"
    return f"-x {name}={os.environ[name]}" if name in os.environ else ""


@cases(
    ("hosts", "size"),
    [("alpha:2,beta", 3)],
    thorough=[("alpha,beta", 2), ("alpha:2,beta:2", 4), ("alpha:2,beta:2,gamma:2", 6)],
)
@pytest.mark.parametrize(
    "engine",
    [pytest.param("gpi2", marks=needs_gpi2), pytest.param("ucx", marks=needs_ucx)],
)
def test_lenet5_has_the_bits_of_one_host(cluster, engine, hosts, size, preloaded):
    command = (
        f"{shlex.join(cluster.prefix)} tarantella --ssh '{cluster.ssh}' -H {hosts} {OPTIONS} "
        f"-x TNT_TRANSPORT={engine} {library_of(engine)} -- {SCRIPT}"
    )
    finished = run_command(command)
    assert finished.status == 0, finished.messages
    assert result_of(finished.output.strip().splitlines()[-1]) == on_one_host(size, preloaded)


LATE = """
import time
import tnt_comm

def load():
    time.sleep(16)

if tnt_comm.get_rank() == 0:
    load()
tnt_comm.barrier()
"""


@needs_ucx
def test_a_late_rank_of_another_host_is_waited_for_and_its_line_is_told(cluster, tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    times = "-x TNT_TIMEOUT_S=1 TNT_STALL_S=12 TNT_TRANSPORT=ucx"
    finished = run_command(
        f"{shlex.join(cluster.prefix)} tarantella --ssh '{cluster.ssh}' -H alpha,beta --no-gpu "
        f"{times} {library_of('ucx')} -- {tmp_path}/late.py"
    )
    assert finished.status == 0, finished
    assert "Rank 0 is at late.py:6, in load. This is no error" in finished.messages
