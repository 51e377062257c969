"""What the tests of Grid Engine rely on: two nodes, a parallel environment and `qrsh -inherit`."""


def test_a_job_gets_slots_on_both_nodes_and_reaches_the_other(grid_engine):
    script = "cut -d' ' -f1,2 $PE_HOSTFILE\nqrsh -inherit n2 hostname\nexit 4"
    job = grid_engine.qsub(script, "-pe", "tnt", "4")
    assert job.result() == "4"
    assert job.output.split() == ["n1", "2", "n2", "2", "n2"]


def test_a_job_that_asks_for_another_life_by_its_exit_code_gets_it(grid_engine):
    job = grid_engine.qsub("echo $RESTARTED; exit $((RESTARTED ? 0 : 99))")
    assert job.result() == "0"
    assert job.output.split() == ["0", "1"]
