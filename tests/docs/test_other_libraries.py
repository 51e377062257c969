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
    """The text and the numbers of the last line of the script's own."""
    [line] = re.findall(r"^(?:loss|units|accuracy) .*$", finished.output, re.MULTILINE)
    return re.findall(r"[a-z]+", line), list(map(float, re.findall(r"[\d.]+", line)))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_script_of_the_page_has_the_serial_result_on_two_ranks(library, tmp_path):
    pytest.importorskip(LIBRARIES[library], reason=WITHOUT)
    serial, two = (
        run_script(script_of(library), tmp_path / f"{size}", num_ranks=size) for size in (1, 2)
    )
    words, numbers = result_of(serial)
    assert result_of(two) == (words, pytest.approx(numbers, rel=1e-3))
    check = WRITTEN.get(library)
    if check is not None:
        check(tmp_path / "2")


def select(file, query):
    with sqlite3.connect(file) as connection:
        return connection.execute(query).fetchall()


def one_run_of_mlflow(folder):
    """With the metrics of each epoch, and the whole model."""
    [(run, status)] = select(folder / "mlflow.db", "SELECT run_uuid, status FROM runs")
    assert status == "FINISHED"
    logged = select(folder / "mlflow.db", "SELECT key, count(*) FROM metrics GROUP BY key")
    assert dict(logged) == {"loss": 3, "val_loss": 3}
    assert list(folder.glob("mlruns/**/model.keras"))
    assert list(folder.glob(f"mlruns/**/{run}/**/latest_checkpoint.h5"))


def one_run_of_wandb(folder):
    assert len(list(folder.glob("wandb/offline-run-*"))) == 1
    assert {path.name for path in folder.glob("*.keras")} == {f"epoch_{i}.keras" for i in (1, 2, 3)}


def trials_of_each_rank(folder):
    of_ranks = [
        [path.read_text("utf-8") for path in sorted(folder.glob(f"tuning/rank_{rank}/*/*/*.json"))]
        for rank in (0, 1)
    ]
    assert len(of_ranks[0]) == len(of_ranks[1]) == 3


def one_study_of_optuna(folder):
    assert select(folder / "study.db", "SELECT state FROM trials") == [("COMPLETE",)] * 3


WRITTEN = {
    "mlflow": one_run_of_mlflow,
    "wandb": one_run_of_wandb,
    "keras_tuner": trials_of_each_rank,
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
    assert "fit: mlflow logs every `fit` by itself, on 2 ranks" in finished.messages
    assert "`if tnt.is_master_rank(): ...`" in finished.messages
