"""Callbacks that measure and record a training."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from models.shared.curves import draw_curves
from models.shared.runtime_profiler import RuntimeProfiler
from models.shared.step_history import StepHistory, read_steps
from models.shared.time_history import TimeHistory


def run_epoch(callback, num_steps, epoch=0, on_step=lambda: None):
    """Call a callback as `fit` does; the loss of step k is k, and logs hold means."""
    callback.on_epoch_begin(epoch)
    for step in range(num_steps):
        callback.on_train_batch_begin(step)
        on_step()
        callback.on_train_batch_end(step, {"loss": step / 2})
    callback.on_epoch_end(epoch, {"loss": 0.5, "val_loss": 0.25})


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when a test says so."""
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr("time.perf_counter", lambda: now.s)
    return now


def advance(clock, seconds):
    def step():
        clock.s += seconds

    return step


def test_the_profiler_prints_every_print_freq_steps_what_it_recorded_every_logging_freq(
    capsys, clock
):
    profiler = RuntimeProfiler(8, logging_freq=2, print_freq=4)
    profiler.on_epoch_begin(3)
    printed = []
    for step in range(5):
        profiler.on_train_batch_begin(step)
        clock.s += 0.5
        profiler.on_train_batch_end(step, {"loss": 1.0})
        printed.append(capsys.readouterr().out.splitlines())
    profiler.on_epoch_end(3, {"loss": 2.0})
    assert printed == [
        [],
        [],
        [],
        [
            "Iteration epoch = 3, iteration = 2, iter_runtime_s = 0.5000, loss = 1.0000",
            "Iteration epoch = 3, iteration = 4, iter_runtime_s = 0.5000, loss = 1.0000",
        ],
        [],
    ]
    assert capsys.readouterr().out == (
        "Epoch epoch = 3, size = 8, niterations = 5, epoch_runtime_s = 2.5000, loss = 2.0000\n"
    )


def test_the_profiler_adds_to_a_file_and_makes_its_folder(tmp_path, capsys):
    path = tmp_path / "new" / "times.txt"
    for _ in range(2):
        run_epoch(RuntimeProfiler(8, path, logging_freq=1), 2)
    assert len(path.read_text().splitlines()) == 6
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="at least 1"):
        RuntimeProfiler(8, logging_freq=0)


class Cost(SimpleNamespace):
    """What communication has cost; as `tnt_comm.Counters`."""

    def __sub__(self, other):
        return Cost(
            communication_s=self.communication_s - other.communication_s,
            exposed_s=self.exposed_s - other.exposed_s,
        )


def test_time_history_tells_samples_a_second_and_the_share_of_communication(capsys, clock):
    history = TimeHistory(
        10, counters=lambda: Cost(communication_s=0.25 * clock.s, exposed_s=0.05 * clock.s)
    )
    run_epoch(history, 5, on_step=advance(clock, 2.0))
    run_epoch(history, 5, epoch=1, on_step=advance(clock, 0.5))
    first, second = history.epochs
    assert first.samples_per_s == pytest.approx(5)
    assert second.samples_per_s == pytest.approx(20)
    assert (first.runtime_s, second.runtime_s) == (10, 2.5)
    assert second.communication_share == pytest.approx(0.25)
    assert second.hidden_share == pytest.approx(0.8)
    assert capsys.readouterr().out.splitlines()[1] == (
        "epoch 2: 2.5 s, 20.0 samples/s, communication 25.0 % of steps, 80 % hidden"
    )


def test_time_history_leaves_out_the_first_step_of_an_epoch_and_needs_no_counters(capsys, clock):
    history = TimeHistory(10, unit="tokens")
    for epoch in range(2):
        steps = iter([100.0, 1.0, 1.0])
        run_epoch(history, 3, epoch, on_step=lambda steps=steps: advance(clock, next(steps))())
        assert history.epochs[epoch].samples_per_s == pytest.approx(10)
        assert history.epochs[epoch].communication_share == 0
    assert capsys.readouterr().out.splitlines() == [
        f"epoch {epoch}: 102.0 s, 10.0 tokens/s, communication 0.0 % of steps" for epoch in (1, 2)
    ]


def test_time_history_counts_the_only_step_of_an_epoch(clock):
    history = TimeHistory(10)
    run_epoch(history, 1, on_step=advance(clock, 4.0))
    assert history.epochs[0].samples_per_s == pytest.approx(2.5)


def test_a_time_history_that_goes_on_has_the_epochs_before(clock):
    first, second = TimeHistory(10), TimeHistory(10)
    run_epoch(first, 2, on_step=advance(clock, 1.0))
    second.set_backup_state(first.get_backup_state())
    run_epoch(second, 2, epoch=1, on_step=advance(clock, 2.0))
    assert [times.samples_per_s for times in second.epochs] == pytest.approx([10, 5])


def test_time_history_is_written_for_tensorboard(tmp_path):
    run_epoch(TimeHistory(10, tmp_path), 2)
    [file] = tmp_path.glob("events.out.tfevents*")
    tags = {
        value.tag
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    }
    assert {"runtime_s", "samples_per_s", "communication_share", "hidden_share"} <= tags


def test_a_step_history_takes_means_apart(tmp_path):
    path = tmp_path / "new" / "steps.jsonl"
    history = StepHistory(path)
    for epoch in range(2):
        run_epoch(history, 4, epoch)
    assert read_steps(path) == pytest.approx([0, 1, 2, 3] * 2)
    assert read_steps(path, "epoch") == [0] * 4 + [1] * 4


def test_a_step_history_replaces_epochs_that_are_trained_again(tmp_path):
    path = tmp_path / "steps.jsonl"
    killed, second = StepHistory(path), StepHistory(path)
    run_epoch(killed, 2, 0)
    killed.on_epoch_begin(1)
    killed.on_train_batch_end(0, {"loss": 7.0})
    state = killed.get_backup_state()
    killed.on_train_batch_end(1, {"loss": 8.0})
    killed.on_epoch_end(1)
    run_epoch(killed, 2, 2)
    second.on_train_begin()
    second.on_epoch_begin(1)
    second.set_backup_state(state)
    second.on_train_batch_end(1, {"loss": 6.5})
    second.on_epoch_end(1)
    run_epoch(second, 2, 2)
    assert read_steps(path) == pytest.approx([0, 1, 7, 6, 0, 1])
    assert read_steps(path, "epoch") == [0, 0, 1, 1, 2, 2]


def test_a_step_history_does_not_touch_other_files(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("7\n")
    with pytest.raises(ValueError, match=r"notes.txt is no history of steps: name another file"):
        StepHistory(path).on_epoch_begin(0)
    assert path.read_text() == "7\n"


def test_a_profiler_that_goes_on_counts_the_seconds_of_both_runs(capsys, clock):
    killed, second = RuntimeProfiler(8), RuntimeProfiler(8)
    killed.on_epoch_begin(0)
    killed.on_train_batch_begin(0)
    clock.s += 2.0
    killed.on_train_batch_end(0)
    state = killed.get_backup_state()
    clock.s = 1000.0
    second.on_epoch_begin(0)
    second.set_backup_state(state)
    second.on_train_batch_begin(1)
    clock.s += 3.0
    second.on_train_batch_end(1)
    second.on_epoch_end(0)
    expected = "Epoch epoch = 0, size = 8, niterations = 2, epoch_runtime_s = 5.0000\n"
    assert capsys.readouterr().out == expected


def test_curves_become_a_picture(tmp_path):
    path = tmp_path / "new" / "curves.svg"
    draw_curves({"serial": [3, 2, 1], "2 ranks": [3, 2, 1]}, path, title="loss of a test")
    assert "<svg" in path.read_text(encoding="utf-8")
