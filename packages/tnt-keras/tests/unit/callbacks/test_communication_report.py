"""The line about communication follows its formulas."""

from __future__ import annotations

import keras

from tnt_comm import Counters
from tnt_keras.callbacks.select import describe, select_callbacks


def test_shares_are_of_the_step_and_of_the_communication() -> None:
    total = Counters(communication_s=8.1, exposed_s=8.1 * 0.08)
    assert describe(100.0, total) == "communication 8.1 % of step, 92 % hidden"


def test_without_communication_all_of_it_is_hidden() -> None:
    assert describe(1.0, Counters()) == "communication 0.0 % of step, 100 % hidden"


def test_one_rank_and_no_timeline_leave_the_callbacks_alone() -> None:
    callbacks = [keras.callbacks.History()]
    assert select_callbacks(callbacks, training=True) is callbacks
    assert select_callbacks(None, training=True) is None
