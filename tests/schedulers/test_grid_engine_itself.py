"""What the tests of Grid Engine rely on: two nodes, a parallel environment and `qrsh -inherit`."""

import pytest


@pytest.mark.thorough
def test_a_job_gets_slots_on_both_nodes_and_reaches_the_other(grid_engine):
    script = """
read -r other slots queue <<< $(tail -n 1 $PE_HOSTFILE)
hostname
echo $other $slots
qrsh -inherit $other hostname
exit 4
"""
    job = grid_engine.qsub(script, "-pe", "tnt", "4")
    assert job.result() == "4"
    first, other, slots, reached = job.output.split()
    assert {first, other} == {"n1", "n2"}
    assert (slots, reached) == ("2", other)


def test_a_job_that_asks_for_another_life_by_its_exit_code_gets_it(grid_engine):
    job = grid_engine.qsub("echo $RESTARTED; exit $((RESTARTED ? 0 : 99))")
    assert job.result() == "0"
    assert job.output.split() == ["0", "1"]
