"""The main job, started as a user starts it: LeNet-5 on handwritten digits."""

import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from run_command import run_command, run_once

CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x08")
EPOCH_END = re.compile(r"(\d+)/\1 .*? accuracy: ([\d.]+) - loss: ([\d.]+)\s*$", re.MULTILINE)


class Result(NamedTuple):
    """What a run printed: per epoch (accuracy, loss), and the loss and accuracy on test data."""

    output: str
    messages: str
    epochs: list[tuple[float, float]]
    test_loss: float
    test_accuracy: float


def run_job(command, run=run_command):
    """Run a training command; a failure shows everything it printed."""
    finished = run(command)
    output = CONTROL.sub("", finished.output).replace("\r", "\n")
    assert finished.status == 0, f"exit status {finished.status}\n{output}\n{finished.messages}"
    # Keras draws a full bar when the last step ends and, some milliseconds later, the final one.
    bars = [EPOCH_END.findall(part)[-1] for part in re.split(r"^Epoch .*$", output, flags=re.M)[1:]]
    epochs = [(float(accuracy), float(loss)) for _, accuracy, loss in bars]
    loss, accuracy = (
        float(re.search(rf"^test {name}: ([\d.]+)$", output, re.MULTILINE).group(1))
        for name in ("loss", "accuracy")
    )
    return Result(output, CONTROL.sub("", finished.messages), epochs, loss, accuracy)


def train_two_epochs_on(size, options=""):
    """Train as on a terminal: what TensorFlow logs is left to the launcher.

    A slow machine must not make ranks report that they wait for each other.
    """
    environment = "env -u TF_CPP_MIN_LOG_LEVEL TNT_STALL_S=600"
    launcher = f"{environment} tarantella -n {size} --no-gpu"
    return run_job(f"{launcher} -- models/lenet5/train.py --epochs 2 {options}")


@pytest.fixture(scope="module")
def main_job():
    return run_job("tarantella -n 2 -- models/lenet5/train.py", run_once)


@pytest.fixture(scope="module")
def two_epochs_on():
    """A function that trains on a number of ranks, the first time it is asked for it."""
    return functools.cache(train_two_epochs_on)


HAS_GPU = any(Path("/dev").glob("nvidia[0-9]*"))


@pytest.fixture(scope="module")
def jobs_on_two_ranks(two_epochs_on, main_job):
    """The same job twice; the main job is one of longer training, unless GPUs compute it."""
    return [two_epochs_on(2), train_two_epochs_on(2) if HAS_GPU else main_job]


@pytest.fixture(scope="module")
def plain_python():
    """The script without the launcher, with `TF_CPP_MIN_LOG_LEVEL=3`, for two epochs."""
    return run_job("python models/lenet5/train.py --epochs 2", run_once)


@pytest.fixture(scope="module")
def serial():
    """Plain Keras, for two epochs."""
    return run_job("python models/lenet5/train_serial.py --epochs 2", run_once)


def test_two_ranks_learn_the_digits(main_job):
    assert main_job.test_accuracy > 0.95
    assert main_job.output.rstrip().splitlines()[-1].startswith("test accuracy: 0.9")


def test_the_progress_bar_is_shown_once(main_job):
    announced = re.findall(r"^Epoch (\d+)/12$", main_job.output, re.MULTILINE)
    assert announced == [str(epoch) for epoch in range(1, 13)]
    assert len(main_job.epochs) == 12
    assert main_job.output.count("test accuracy:") == 1


def assert_two_epochs_are_those_of(serial, distributed):
    """Compare two epochs.

    Sums are rounded in another order, and some 50 steps of Adam amplify that; printed are 4 digits.
    """
    for (accuracy, loss), (serial_accuracy, serial_loss) in zip(
        distributed.epochs[:2], serial.epochs[:2], strict=True
    ):
        assert loss == pytest.approx(serial_loss, abs=1e-3)
        assert accuracy == pytest.approx(serial_accuracy, abs=1 / 1500 + 1e-4)  # one sample


def test_losses_and_accuracies_are_those_of_the_serial_run(main_job, two_epochs_on, serial):
    """The last batch has 1500 - 23 * 64 = 28 samples."""
    assert_two_epochs_are_those_of(serial, two_epochs_on(2) if HAS_GPU else main_job)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 3])
def test_losses_and_accuracies_are_those_of_the_serial_run_on_any_number_of_ranks(
    size, two_epochs_on, serial
):
    assert len(two_epochs_on(size).epochs) == 2
    assert_two_epochs_are_those_of(serial, two_epochs_on(size))


@pytest.mark.thorough  # the same on small models: test_training_equals_serial
def test_batches_of_any_size_give_the_results_of_the_serial_run():
    """53 samples on 3 ranks are 18, 18 and 17, and the last batch has 1500 - 28 * 53 = 16."""
    options = "--batch-size 53"
    serial = run_job(f"python models/lenet5/train_serial.py --epochs 2 {options}")
    distributed = train_two_epochs_on(3, options)
    assert_two_epochs_are_those_of(serial, distributed)
    assert distributed.test_loss == pytest.approx(serial.test_loss, abs=1e-3)


@pytest.mark.thorough
def test_a_job_can_be_repeated_digit_by_digit(jobs_on_two_ranks):
    first, second = jobs_on_two_ranks
    assert first.epochs == second.epochs[:2]


def test_plain_python_runs_the_distributed_script_as_a_world_of_one_rank(plain_python, serial):
    assert plain_python.epochs == serial.epochs
    assert plain_python.test_loss == serial.test_loss


def lines_of(result):
    """What was printed, without numbers, times and the length of bars."""
    text = result.output + result.messages
    for pattern, replacement in (
        ("━+", "━"),
        (r"\d+:\d+(:\d+)?|\d+(ms|us|s)\b", "T"),
        (r"\d+(\.\d+)?(e[+-]\d+)?", "N"),
    ):
        text = re.sub(pattern, replacement, text)
    return {" ".join(line.split()) for line in text.splitlines()}


def test_nothing_is_printed_that_plain_python_does_not_print(main_job, plain_python):
    assert lines_of(main_job) - lines_of(plain_python) == set()


@pytest.mark.thorough
def test_ranks_whose_log_is_left_to_the_launcher_print_nothing_beside_the_progress_bar(
    jobs_on_two_ranks, two_epochs_on, plain_python
):
    assert two_epochs_on(2).messages == ""
    for job in jobs_on_two_ranks:
        assert lines_of(job) - lines_of(plain_python) == set()
