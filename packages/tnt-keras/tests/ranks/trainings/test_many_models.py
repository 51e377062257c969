"""Whoever makes one model after the other in a process keeps no more than plain Keras does."""

from __future__ import annotations

from typing import Any

import many_models
import pytest
from rank_pools import ENVIRONMENT

from tnt_comm.testing import run_ranks

WARM_UP = 1
"""Rounds after which all is there that is made once in a process."""

MOST_GROWTH = 1.5
"""Of memory, relative to plain Keras, of whose graphs TensorFlow keeps some in each round."""

CONSTANT = ["models", "threads", "descriptors", "shared mappings"]


def _assert_nothing_is_kept(first: dict[str, Any], last: dict[str, Any]) -> None:
    for name, number in last["live objects"].items():
        assert number <= first["live objects"].get(name, 0), name
    for name in CONSTANT:
        assert last[name] <= first[name], name


def _growth(seen: list[dict[str, Any]], name: str) -> int:
    return int(seen[-1][name] - seen[0][name])


def test_rounds_of_new_models_leave_nothing_behind(pool_of: Any) -> None:
    arguments = (WARM_UP + 2, [WARM_UP, WARM_UP + 1])
    for seen in pool_of(2).run(many_models.observe_rounds, True, *arguments):
        _assert_nothing_is_kept(*seen)


@pytest.mark.thorough
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("size", [1, 2])
def test_200_rounds_grow_as_in_plain_keras(size: int, preloaded: Any) -> None:
    arguments = (200, [20, 199])
    job = {"env": ENVIRONMENT, "preloaded": preloaded, "timeout_s": 3600}
    [plain] = run_ranks(many_models.observe_rounds, 1, False, *arguments, **job)
    for seen in run_ranks(many_models.observe_rounds, size, True, *arguments, **job):
        _assert_nothing_is_kept(*seen)
        assert _growth(seen, "graphs") <= _growth(plain, "graphs")
        assert _growth(seen, "resident bytes") <= MOST_GROWTH * _growth(plain, "resident bytes")
