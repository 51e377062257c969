"""Who counts as started by the ranks of a launcher."""

import subprocess
import sys

PROGRAM = """
import subprocess
from tnt_launch.running.orphans import Orphans

sleep = ["sleep", "1000"]
before = subprocess.Popen(sleep)
rank = None
orphans = Orphans(lambda: [rank.pid] if rank else [])
rank = subprocess.Popen(sleep, start_new_session=True)
orphan = subprocess.Popen(sleep, start_new_session=True)
try:
    orphans.close()
    print(before.poll(), rank.poll(), orphan.poll() is not None, orphans.send_signal(0))
finally:
    for process in (before, rank, orphan):
        process.kill()
"""


def test_children_of_before_and_ranks_are_no_orphans() -> None:
    """A shell may have started processes and become the launcher; ranks are ended by others."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "None None True False\n", done.stderr
