"""Errors name the keyword of the user's call, and a dataset is read once."""

from __future__ import annotations

import re
from typing import Any

import keyword_mistakes
import numpy as np
import pytest
from cases import cases

INNER_NAME = re.compile(r"\bmicro_batch_size\b")  # of tnt-data, which the user does not know

NAMED = {
    "unbatched": ("NotBatchedError", ["micro-batch", "samples"]),
    "contradicting micro-batch": ("BatchSizeError", ["micro-batch", "samples"]),
    "micro-batch of nothing": ("BatchSizeError", ["micro-batch"]),
    "micro-batch of words": ("TypeError", ["micro-batch"]),
    "micro-batch of own samples": ("ValueError", ["micro-batch", "distribute"]),
    "micro-batch of whole batches": ("ValueError", ["micro-batch", "samples"]),
    "two sizes": ("ValueError", ["micro-batch", "batch"]),
    "shared already": ("ValueError", ["distribute", "samples"]),
    "other dataset": ("ValueError", ["distribute", "samples"]),
    "other number of steps": ("ValueError", ["steps", "samples"]),
    "unknown kind": ("TypeError", ["samples"]),
}
"""The class of the error, and the arguments that it names."""


def _names(text: str, keyword: str) -> bool:
    return re.search(rf"(`|\b){keyword}[`=]|\b(give|pass|Leave) {keyword}\b", text) is not None


@pytest.mark.parametrize("place", keyword_mistakes.KEYWORDS)
@pytest.mark.parametrize("mistake", NAMED)
def test_error_names_the_keyword_of_the_call(mistake: str, place: str, pool_of: Any) -> None:
    kind, named = NAMED[mistake]
    keywords = keyword_mistakes.KEYWORDS[place]
    others = {name for one in keyword_mistakes.KEYWORDS.values() for name in one.values()}
    for actual_kind, text in pool_of(2).run(keyword_mistakes.error_of, mistake, place):
        assert actual_kind == kind, text
        for argument in named:
            assert _names(text, keywords[argument]), text
        assert not INNER_NAME.search(text), text
        assert not [name for name in others - {*keywords.values()} if _names(text, name)], text


@cases("size", [2], thorough=[1])
@cases("validate", [True], thorough=[False])
def test_fit_reads_each_pipeline_once(size: int, validate: bool, pool_of: Any) -> None:
    expected = 2 if validate else 1
    assert pool_of(size).run(keyword_mistakes.reads_of_fit, validate) == [expected] * size


def test_batch_size_of_validation_does_not_change_its_loss(pool_of: Any) -> None:
    for losses in pool_of(2).run(keyword_mistakes.default_of_validation):
        np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
