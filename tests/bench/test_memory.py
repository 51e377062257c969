"""A workload that does not fit into memory is left out, with the reason."""

import pytest

from benchmarks.allreduce import memory
from benchmarks.allreduce.workload import make_workload


@pytest.mark.parametrize(("available", "is_left_out"), [(699, True), (700, False)])
def test_every_rank_of_every_library_needs_its_arrays(monkeypatch, available, is_left_out):
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    shortage = memory.shortage_of(make_workload("100B"), num_ranks=2, num_libraries=2)
    assert bool(shortage) == is_left_out
    assert not shortage or shortage.startswith("100B on 2 ranks is left out: 2 libraries need")


def test_the_kernel_says_what_is_available():
    assert 0 < memory.available_bytes() < 1 << 50
