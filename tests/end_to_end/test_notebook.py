"""`tnt.launch` in a notebook: a training on ranks is one of its cells."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import threading
import time
from collections.abc import Iterator

import nbclient
import nbformat
import pytest

DEADLINE_S = 300

PREPARE = """
import os, sys, time
import numpy as np, keras, tensorflow as tf
import tarantella as tnt

@tf.function
def sign(x):
    if x > 0:
        return tf.constant(1)
    return tf.constant(-1)

def train_and_sign(prepare):
    return *train(prepare), [int(sign(x)) for x in tf.constant([2.0, -2.0])]

def train(prepare):
    keras.utils.set_random_seed(5)
    model = prepare(keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"),
                                      keras.layers.Dense(1)]))
    model.compile("adam", "mse")
    rows = np.linspace(-1, 1, 99).reshape(33, 3).astype("float32")
    logs = model.fit(rows, rows.sum(1), batch_size=10, epochs=2, verbose=2)
    return logs.history["loss"], model.get_weights()

def announce(name):
    with open(name + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(name + ".part", name)

def wait():
    announce("pid-" + os.environ["TNT_RANK"])
    time.sleep(1000)
"""


class Notebook:
    """A notebook with a kernel; cells are run one by one."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self._loop = asyncio.new_event_loop()
        self.client = nbclient.NotebookClient(
            nbformat.v4.new_notebook(),
            timeout=DEADLINE_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        )
        self._kernel = self.client.async_setup_kernel()
        self._loop.run_until_complete(self._kernel.__aenter__())

    def run(self, source: str) -> str:
        """Run a cell and return all text that it shows."""
        cell = nbformat.v4.new_code_cell(source)
        self.client.nb.cells.append(cell)
        index = len(self.client.nb.cells) - 1
        self._loop.run_until_complete(self.client.async_execute_cell(cell, index))
        return "".join(output.get("text", "") for output in cell.outputs)

    def pids(self, size: int) -> list[int]:
        """Process numbers of ranks that wait, once they do."""
        files = [self.folder / f"pid-{rank}" for rank in range(size)]
        wait_until(lambda: all(file.exists() for file in files))
        pids = [int(file.read_text()) for file in files]
        for file in files:
            file.unlink()
        return pids

    def close(self) -> None:
        self._loop.run_until_complete(self._kernel.__aexit__(None, None, None))
        self._loop.close()


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in [name for name in os.environ if name.startswith("TNT_")]:
            patch.delenv(name)
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        notebook = Notebook(tmp_path_factory.mktemp("notebook"))
        stack.callback(notebook.close)
        notebook.run(PREPARE)
        yield notebook


def wait_until(condition) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_a_training_on_ranks_equals_that_of_another_cell_and_is_shown(notebook):
    alone = notebook.run("loss, weights = train(lambda model: model)")
    shown = notebook.run("results = tnt.launch(train_and_sign, n=2, args=(tnt.Model,))")
    assert "Epoch 2/2" in shown
    assert shown.count("Epoch 2/2") == alone.count("Epoch 2/2") == 1  # the master's alone
    notebook.run("""
for of_rank in results:
    np.testing.assert_allclose(of_rank[0], loss, rtol=1e-5)
    for found, expected in zip(of_rank[1], weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
assert len(results) == 2
""")


def test_a_traced_function_of_a_cell_keeps_its_conditions(notebook):
    """The ranks of the test above have called it."""
    notebook.run("assert [of_rank[2] for of_rank in results] == 2 * [[1, -1]]")


def test_an_exception_is_that_of_the_cell(notebook):
    cell = """
class TooFewSamplesError(Exception):
    pass

def fail():
    if os.environ["TNT_RANK"] == "1":
        raise TooFewSamplesError("on rank 1")
    time.sleep(1000)

tnt.launch(fail, n=2)
"""
    with pytest.raises(nbclient.exceptions.CellExecutionError) as caught:
        notebook.run(cell)
    assert (caught.value.ename, caught.value.evalue) == ("TooFewSamplesError", "on rank 1")
    assert 'raise TooFewSamplesError("on rank 1")' in caught.value.traceback
    notebook.run("""
try:
    tnt.launch(fail, n=2)
except TooFewSamplesError as error:
    assert "rank 1 on" in str(error.__cause__)
""")


def test_an_interrupt_ends_the_ranks_and_the_kernel_goes_on(notebook):
    pids = []

    def interrupt() -> None:
        pids.extend(notebook.pids(2))
        os.killpg(notebook.client.km.provisioner.pid, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(nbclient.exceptions.CellExecutionError) as caught:
        notebook.run("tnt.launch(wait, n=2)")
    thread.join()
    assert caught.value.ename == "KeyboardInterrupt"
    assert not any(is_alive(pid) for pid in pids)
    notebook.run("assert tnt.launch(lambda: 3, n=2) == [3, 3]")


def test_the_ranks_end_with_the_kernel(notebook):
    pids = []

    def kill() -> None:
        pids.extend(notebook.pids(2))
        os.kill(notebook.client.km.provisioner.pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(nbclient.exceptions.DeadKernelError):
        notebook.run("tnt.launch(wait, n=2)")
    thread.join()
    wait_until(lambda: not any(is_alive(pid) for pid in pids))
