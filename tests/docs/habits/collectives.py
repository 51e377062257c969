"""Collectives."""

import os
from pathlib import Path

import numpy as np

import tarantella as tnt
from habits.row import habit, run, value


def of_rank(rank):
    return np.arange(4.0) * (rank + 1)


ZERO, ONE = of_rank(0), of_rank(1)


@habit(
    "hvd.allreduce(x)",
    "hvd.allreduce(x, op=hvd.Sum)",
    "hvd.allreduce(x, op=hvd.Max)",
    "hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum)",
    "hvd.allgather(x)",
    "hvd.broadcast(x, root_rank=1)",
    "hvd.reducescatter(x, op=hvd.Sum)",
    "hvd.alltoall(x)",
    "dist.all_reduce(x)",
)
def arrays_of_ranks_become_one(code):
    expected = {
        "tnt.comm.allreduce(x) / tnt.get_size()": (ZERO + ONE) / 2,
        "tnt.comm.allreduce(x)": ZERO + ONE,
        'tnt.comm.allreduce(x, "max")': ONE,
        "tnt.TensorAllreducer([x, 2 * x]).allreduce([x, 2 * x])": [ZERO + ONE, 2 * (ZERO + ONE)],
        "np.concatenate(tnt.comm.allgather(x))": np.concatenate([ZERO, ONE]),
        "tnt.comm.broadcast(x, root=1)": ONE,
        "tnt.comm.reduce_scatter(x)": np.split(ZERO + ONE, 2)[tnt.get_rank()],
        "tnt.comm.alltoall(x)": np.concatenate(
            [np.split(x, 2)[tnt.get_rank()] for x in (ZERO, ONE)]
        ),
    }
    np.testing.assert_array_equal(value(code, x=of_rank(tnt.get_rank())), expected[code])


@habit(
    "hvd.broadcast_object(value, root_rank=0)",
    "hvd.allgather_object(value)",
    "gather_object(value)",
)
def objects_travel(code):
    found = value(code, value={"rank": tnt.get_rank()})
    of_ranks = [{"rank": 0}, {"rank": 1}]
    assert found == (of_ranks if "gather" in code else of_ranks[0])


@habit("hvd.barrier()", "accelerator.wait_for_everyone()")
def ranks_wait(code):
    if tnt.is_master_rank():
        Path("written").touch()
    run(code)
    assert os.listdir() == ["written"]


@habit("with accelerator.main_process_first():")
def the_master_goes_first(code):
    class Folder:
        def mkdir(self, exist_ok):
            found = os.listdir()
            Path("data").mkdir(exist_ok=exist_ok)
            self.found = found

    folder = Folder()
    run(code, folder=folder)
    assert tnt.allgather_object(folder.found) == [[], ["data"]]


@habit("hvd.add_process_set([0, 1])")
def some_ranks_make_a_group(code):
    group = value(code)
    np.testing.assert_array_equal(group.allreduce(of_rank(tnt.get_rank())), ZERO + ONE)
