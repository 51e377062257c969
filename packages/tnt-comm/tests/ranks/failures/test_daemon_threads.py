"""A thread that is still in a collective when its program ends does not change how that ends."""

import pytest
from program_on_ranks import run_program

PROGRAM = """
import sys, threading, time
import numpy as np
import tnt_comm
tnt_comm.init()
if tnt_comm.get_rank() == 0:
    sum_of_all = (tnt_comm.allreduce, np.ones(1_000_000, np.float32))
    threading.Thread(target=sum_of_all[0], args=sum_of_all[1:], daemon=True).start()
    time.sleep(0.5)
    sys.exit({code})
time.sleep(2)
"""


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_that_of_the_program(tmp_path, code):
    codes, (own, _) = run_program(tmp_path, PROGRAM.format(code=code))
    assert codes == [code, 0], own
    assert "terminat" not in own
