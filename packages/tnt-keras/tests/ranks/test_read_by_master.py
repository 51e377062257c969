"""What would differ from rank to rank is read by one of them, and training is the serial one."""

from __future__ import annotations

from typing import Any

import pytest
import read_by_master
from serial_results import assert_serial


@pytest.mark.parametrize("kind", read_by_master.FITS)
def test_training_on_what_draws_without_a_seed_is_that_of_serial_keras(
    kind: str, pool_of: Any
) -> None:
    assert_serial(read_by_master.train, pool_of, kind, size=3)
