"""The commands of the page on UCX, as they stand there, on two hosts that know nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import network_namespaces
from run_command import ROOT
from ucx_found import needs_ucx

PAGE = (ROOT / "docs/howto/use_ucx.md").read_text("utf-8").split("## Two machines by hand")[1]
SCRIPT = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
ALPHA, BETA = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[:2]


def start(host, commands, folder):
    """A shell on the host, in which the commands are given."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith("TNT_")}
    if "TNT_UCX_LIBRARY" in os.environ:
        variables["TNT_UCX_LIBRARY"] = os.environ["TNT_UCX_LIBRARY"]
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.Popen(
        [*host.prefix, "bash", "-e", "-c", commands.replace("10.0.0.1", "10.201.7.1")],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )


@needs_ucx
def test_both_print_the_sum(tmp_path):
    (tmp_path / "sums.py").write_text(SCRIPT)
    with network_namespaces.cluster((1, 1)) as (alpha, beta), start(alpha, ALPHA, tmp_path) as one:
        try:
            secret = one.stdout.readline().strip()
            with start(beta, BETA.replace("...", secret), tmp_path) as other:
                try:
                    assert other.communicate(timeout=100)[0] == "1 [3. 3. 3.]\n"
                finally:
                    other.kill()
            assert one.communicate(timeout=100)[0] == "0 [3. 3. 3.]\n"
        finally:
            one.kill()
