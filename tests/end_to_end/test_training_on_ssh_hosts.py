"""`tarantella -H a:2,b:2 -- train.py` on hosts with an sshd gives the bits of one host."""

import json
import os
import shlex

import pytest
from cases import cases
from gpi2_found import needs_gpi2
from run_command import run_command, run_once
from ssh_hosts import ssh_cluster
from ucx_found import needs_ucx

# The bits of TensorFlow's own operations depend on its threads, and hosts have more cores each.
OPTIONS = "--no-gpu -x TNT_NUM_THREADS=1"
SCRIPT = "tests/end_to_end/scripts/train_lenet5.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with ssh_cluster(["alpha", "beta", "gamma"], tmp_path_factory.mktemp("ssh")) as made:
        yield made


def result_of(finished):
    assert finished.status == 0, finished.messages
    history, digest = json.loads(finished.output.strip().splitlines()[-1])
    assert len(history["loss"]) == 2
    return history, digest


def on_one_host(size):
    return result_of(run_once(f"tarantella -n {size} {OPTIONS} -- {SCRIPT}"))


def library_of(engine):
    name = f"TNT_{engine.upper()}_LIBRARY"
    return f"-x {name}={os.environ[name]}" if name in os.environ else ""


@cases(
    ("hosts", "size"),
    [("alpha:2,beta:2", 4)],
    thorough=[("alpha,beta", 2), ("alpha,beta,gamma", 3), ("alpha:2,beta:2,gamma:2", 6)],
)
@pytest.mark.parametrize(
    "engine",
    [pytest.param("gpi2", marks=needs_gpi2), pytest.param("ucx", marks=needs_ucx)],
)
def test_lenet5_has_the_bits_of_one_host(cluster, engine, hosts, size):
    command = (
        f"{shlex.join(cluster.prefix)} tarantella --ssh '{cluster.ssh}' -H {hosts} {OPTIONS} "
        f"-x TNT_TRANSPORT={engine} {library_of(engine)} -- {SCRIPT}"
    )
    assert result_of(run_command(command)) == on_one_host(size)
