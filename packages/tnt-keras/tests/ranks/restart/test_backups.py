"""A run that is killed and started again ends with the very bits of one that was not."""

from __future__ import annotations

import pathlib
import signal
from typing import Any

import backups
import numpy as np
import pytest
from backups import DATA, Death, Options
from rank_pools import ENVIRONMENT

from tnt_comm.testing import RanksFailed, observe_ranks, run_ranks
from tnt_keras.restart.backup_files import read_container


class Runs:
    """Runs of one training, on forks of one process."""

    def __init__(
        self,
        preloaded: Any,
        folder: pathlib.Path,
        kind: str,
        options: Options,
        lanes: int | None = None,
    ) -> None:
        self._preloaded, self._folder = preloaded, folder
        self._kind, self._options = kind, options
        self._of_lanes = {} if lanes is None else {"TNT_LANES": str(lanes)}

    def _run(self, run: Any, size: int, folder: str, death: Death) -> list[Any]:
        arguments = (self._kind, str(self._folder / folder), death, self._options)
        env = {**ENVIRONMENT, **self._of_lanes, "TNT_TIMEOUT_S": "100"}
        ranks: list[Any] = run(backups.train, size, *arguments, env=env, preloaded=self._preloaded)
        return ranks

    def undisturbed(self, size: int) -> list[Any]:
        """The results of ranks that were never killed."""
        return self._run(run_ranks, size, "undisturbed", Death())

    def observed(self, size: int, death: Death) -> list[Any]:
        """Reports of ranks that get signals."""
        return self._run(observe_ranks, size, "killed", death)

    def kill(self, size: int, death: Death) -> bool:
        """Run until processes are killed; False if the training has ended before."""
        reports = self.observed(size, death)
        killed = [rank for rank, each in enumerate(reports) if each.exit_code == -signal.SIGKILL]
        if not killed and any(report.has_failed for report in reports):
            raise RanksFailed(reports, backups.train.__qualname__)
        assert death.rank is None or killed in ([], [death.rank])
        return bool(killed)

    def continued(self, size: int) -> list[Any]:
        """The results of the runs that were killed, started a last time."""
        return self._run(run_ranks, size, "killed", Death())


def _assert_same(of_ranks: list[Any], expected_of_ranks: list[Any]) -> None:
    for actual, expected in zip(of_ranks, expected_of_ranks, strict=True):
        variables, others = actual.pop("variables"), expected.pop("variables")
        assert [each.tobytes() for each in variables] == [each.tobytes() for each in others]
        assert repr(actual) == repr(expected)
        assert not actual["folder is left"]


def _assert_continues(runs: Runs, size: int, *deaths: Death) -> None:
    expected = runs.undisturbed(size)
    for death in deaths:
        assert runs.kill(size, death)
    _assert_same(runs.continued(size), expected)


def test_killed_in_the_middle_of_an_epoch_and_of_writing(
    preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, "shuffled", Options())
    _assert_continues(runs, 2, Death("write", 7))


def test_all_ranks_save_and_leave_at_the_step_in_which_a_signal_came_to_one(
    preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, "shuffled", Options(save_freq="epoch"))
    death = Death("on_train_batch_end", 6, rank=1, signal=signal.SIGUSR2)
    reports = runs.observed(2, death)
    assert [report.exit_code for report in reports] == [75, 75]
    with open(tmp_path / "killed" / "latest.tnt_backup", "rb") as stream:
        progress = read_container(stream)["progress"]
    assert (progress["epoch"], progress["executions"]) == (1, 2)  # the seventh, of 5 in an epoch


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("hook", "number"),
    [
        *(("on_train_begin", 0), ("on_train_batch_end", 4), ("on_train_batch_end", 6)),
        *(("on_test_batch_end", 4), ("on_epoch_end", 1)),
    ],
)
def test_a_run_goes_on_that_a_scheduler_has_asked_to_end(
    hook: str, number: int, size: int, preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, "shuffled", Options(save_freq="epoch"))
    expected = runs.undisturbed(size)
    reports = runs.observed(size, Death(hook, number, rank=size - 1, signal=signal.SIGTERM))
    assert [report.exit_code for report in reports] == [75] * size
    _assert_same(runs.continued(size), expected)


@pytest.mark.thorough
def test_killed_in_the_middle_of_an_epoch_and_again_in_the_middle_of_writing(
    preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, "shuffled", Options())
    _assert_continues(runs, 2, Death("on_train_batch_end", 7), Death("write", 2))


@pytest.mark.thorough
def test_one_rank_continues_after_the_last_step_of_an_epoch(
    preloaded: Any, tmp_path: pathlib.Path
) -> None:
    options = Options(accumulated_steps=3, draws_of_rows=False)
    runs = Runs(preloaded, tmp_path, "PyDataset with noise", options)
    _assert_continues(runs, 1, Death("on_test_batch_end", 1))


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("kind", DATA)
def test_killed_again_and_again(
    kind: str, size: int, preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, kind, Options())
    expected, num_killed = runs.undisturbed(size), 0
    while runs.kill(size, Death("on_train_batch_end", 4)):
        num_killed += 1
    assert num_killed >= 2
    _assert_same(runs.continued(size), expected)


@pytest.mark.thorough
def test_killed_after_every_step(preloaded: Any, tmp_path: pathlib.Path) -> None:
    runs = Runs(preloaded, tmp_path, "shuffled", Options())
    expected, num_killed = runs.undisturbed(2), 0
    while runs.kill(2, Death("on_train_batch_end", 1)):
        num_killed += 1
    assert num_killed > 10
    _assert_same(runs.continued(2), expected)


@pytest.mark.thorough
@pytest.mark.parametrize("save_freq", ["epoch", 2])
@pytest.mark.parametrize(
    "death",
    [
        Death("on_train_batch_begin", 0),
        Death("on_train_batch_end", 4),
        Death("on_test_batch_end", 8),
        Death("on_epoch_begin", 1),
        Death("on_epoch_end", 1),
        Death("write", 1),
        Death("on_train_end", 0),
        Death("on_train_batch_end", 8, rank=0),
        Death("on_train_batch_end", 8, rank=1),
        Death("on_epoch_end", 2, rank=1),
    ],
    ids=lambda death: "-".join(map(str, death)),
)
def test_killed_at_any_point(
    death: Death, save_freq: Any, preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, "shuffled", Options(save_freq))
    _assert_continues(runs, 2, death)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["shuffled", "unknown length", "arrays"])
@pytest.mark.parametrize("size", [1, 2])
def test_several_steps_in_one_execution(
    size: int, kind: str, preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, kind, Options(2, steps_per_execution=2))
    _assert_continues(runs, size, Death("on_train_batch_end", 4))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["shuffled", "arrays", "repeated"])
def test_gradients_that_ranks_have_accumulated_are_in_the_backup(
    kind: str, preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, kind, Options(accumulated_steps=3))
    _assert_continues(runs, 2, Death("on_train_batch_end", 5), Death("on_train_batch_end", 3))


@pytest.mark.thorough
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 3), (3, 2)])
def test_another_number_of_ranks_continues_to_rounding(
    before: int, after: int, preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, "shuffled", Options(draws_of_rows=False))
    [expected, *_] = runs.undisturbed(before)
    assert runs.kill(before, Death("on_train_batch_end", 7))
    for actual in runs.continued(after):
        assert actual["epoch"] == expected["epoch"]
        for key, values in expected["history"].items():
            np.testing.assert_allclose(actual["history"][key], values, atol=1e-5)
        for one, other in zip(actual["variables"], expected["variables"], strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["shuffled", "arrays", "PyDataset with noise"])
def test_lanes_continue_on_another_number_of_ranks_with_the_same_bits(
    kind: str, preloaded: Any, tmp_path: pathlib.Path
) -> None:
    runs = Runs(preloaded, tmp_path, kind, Options(), lanes=4)
    [expected] = runs.undisturbed(1)
    assert runs.kill(2, Death("on_train_batch_end", 4))
    assert runs.kill(1, Death("write", 6))
    for actual in runs.continued(4):
        _assert_same([actual], [dict(expected)])


def test_a_backup_holds_nothing_of_an_optimizer_that_another_one_has_replaced(pool_of: Any) -> None:
    """Started again, a script does not train with it once more."""
    names, _ = pool_of(2).run(backups.variables_after_another_compile)
    assert any("sgd" in name or "learning_rate" in name for name in names), names
    assert not [name for name in names if "adam" in name or "momentum" in name]
