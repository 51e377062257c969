"""The scripts for other libraries run as the page has them: on two ranks as on one."""

import re
import sqlite3

import pytest
from run_command import ROOT, run_command

PAGE = (ROOT / "docs/howto/use_with_other_libraries.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
LIBRARIES = {
    "mlflow": "mlflow",
    "wandb": "wandb",
    "keras_tuner": "keras_tuner",
    "optuna": "optuna",
    "keras.wrappers": "sklearn",
    "scikeras": "scikeras",
}
"""What a script imports, and the package that it needs."""
WITHOUT = "`nox -s libraries` installs it"


def script_of(library):
    [script] = [each for each in SCRIPTS if re.search(rf"^(import|from) {library}\b", each, re.M)]
    return script


def run_script(source, folder, *, num_ranks):
    """What a script prints in an empty folder, whose runs of W&B stay on the disk."""
    folder.mkdir()
    (folder / "script.py").write_text(source, encoding="utf-8")
    python = "python" if num_ranks == 1 else f"tarantella -n {num_ranks} --no-gpu --"
    variables = "WANDB_MODE=offline CUDA_VISIBLE_DEVICES=-1 GIT_PYTHON_REFRESH=quiet"
    finished = run_command(f"cd {folder} && {variables} {python} script.py")
    assert finished.status == 0, finished.messages
    return finished


def result_of(finished):
    """Words and numbers of the line that a script prints at its end."""
    [line] = re.findall(r"^(?:loss|units|accuracy) .*$", finished.output, re.MULTILINE)
    return re.findall(r"[a-z]+", line), list(map(float, re.findall(r"[\d.]+", line)))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_script_of_the_page_has_the_serial_result_on_two_ranks(library, tmp_path):
    pytest.importorskip(LIBRARIES[library], reason=WITHOUT)
    folders = tmp_path / "serial", tmp_path / "two"
    serial, two = (
        run_script(script_of(library), folder, num_ranks=size)
        for size, folder in enumerate(folders, 1)
    )
    words, numbers = result_of(serial)
    assert result_of(two) == (words, pytest.approx(numbers, rel=1e-3))
    if library in WRITTEN:
        WRITTEN[library](*folders)


def select(file, query):
    with sqlite3.connect(file) as connection:
        return connection.execute(query).fetchall()


def one_run_of_mlflow(serial, two):
    """With the metrics of the serial one, checkpoints, and the whole model."""
    [(run, status)] = select(two / "mlflow.db", "SELECT run_uuid, status FROM runs")
    assert status == "FINISHED"
    query = "SELECT key, step, value FROM metrics"
    expected, logged = (
        {(key, step): value for key, step, value in select(folder / "mlflow.db", query)}
        for folder in (serial, two)
    )
    assert {("loss", 2), ("val_loss", 2)} <= expected.keys()
    assert logged == pytest.approx(expected, rel=1e-3)
    assert list(two.glob("mlruns/**/model.keras"))
    assert list(two.glob(f"mlruns/**/{run}/**/latest_checkpoint.h5"))


def one_run_of_wandb(serial, two):
    for folder in (serial, two):
        assert len(list(folder.glob("wandb/offline-run-*"))) == 1
        models = {f"epoch_{epoch}.keras" for epoch in (1, 2, 3)}
        assert {path.name for path in folder.glob("*.keras")} == models


def the_same_trials_on_each_rank(_, two):
    """Whose weights are in the folder of the master."""
    of_ranks = [
        {
            path.parent.name: path.read_text("utf-8")
            for path in two.glob(f"tuning/{rank}/*/*/trial.json")
        }
        for rank in ("rank_0", "rank_1")
    ]
    assert of_ranks[0] == of_ranks[1]
    assert of_ranks[0].keys() == {"trial_0", "trial_1", "trial_2"}
    weights = {path.parts[-4] for path in two.glob("tuning/*/*/*/*.weights.h5")}
    assert weights == {"rank_0"}


def one_study_of_optuna(_, two):
    assert select(two / "study.db", "SELECT state FROM trials") == [("COMPLETE",)] * 3


WRITTEN = {
    "mlflow": one_run_of_mlflow,
    "wandb": one_run_of_wandb,
    "keras_tuner": the_same_trials_on_each_rank,
    "optuna": one_study_of_optuna,
}
"""What a library must have written; the others write nothing."""


def test_every_script_of_the_page_is_run():
    assert sorted(map(script_of, LIBRARIES)) == sorted(SCRIPTS)


def test_a_logger_that_each_rank_turns_on_is_told_of(tmp_path):
    pytest.importorskip("mlflow", reason=WITHOUT)
    on_all_ranks = script_of("mlflow").replace("if tnt.is_master_rank():", "if True:")
    quick = on_all_ranks.replace("log_datasets=False", "log_models=False, checkpoint=False")
    apart = 'mlflow.set_tracking_uri(f"sqlite:///rank_{tnt.get_rank()}.db")'
    finished = run_script(
        quick.replace("if True:", f"{apart}\nif True:"), tmp_path / "2", num_ranks=2
    )
    assert "fit: mlflow logs every `fit` on 2 ranks" in finished.messages
    assert "`if tnt.is_master_rank(): ...`" in finished.messages
