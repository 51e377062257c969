"""The model that trains and the one that translates have the same weights."""

import keras
import numpy as np
import pytest

from models.transformer.network import Transformer
from models.transformer.params import PARAM_SETS
from models.transformer.schedule import WarmupInverseSquareRoot
from models.transformer.task import TransformerTntTask, create_model

# Keras asks variables for arrays in a way that NumPy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

PARAMS = PARAM_SETS["tiny"].replace(vocab_size=20, num_hidden_layers=1, filter_size=48)
SOURCES, TARGETS = np.array([[3, 4, 1, 0], [5, 1, 0, 0]]), np.array([[7, 8, 1], [9, 1, 0]])


@pytest.fixture(scope="module")
def task():
    keras.utils.set_random_seed(1)
    return TransformerTntTask(
        PARAMS.without_dropout().replace(learning_rate=0.2, learning_rate_warmup_steps=2),
        metrics_in_training=True,
    )


def test_training_changes_what_is_translated(task):
    assert {id(each.value) for each in task.train_model.weights} == {
        id(each.value) for each in task.predict_model.weights
    }
    before = task.predict_model.predict_on_batch(SOURCES)
    history = task.train_model.fit(
        (SOURCES, TARGETS), TARGETS, epochs=40, batch_size=2, shuffle=False, verbose=0
    )
    after = task.predict_model.predict_on_batch(SOURCES)
    assert history.history["loss"][-1] < history.history["loss"][0]
    np.testing.assert_array_equal(after["outputs"][:, :3], TARGETS)
    assert (after["scores"] > before["scores"]).all()


def test_metrics_of_training_are_logged_if_asked_for(task):
    logs = task.train_model.evaluate((SOURCES, TARGETS), TARGETS, verbose=0, return_dict=True)
    names = {"accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity"}
    assert set(logs) == {"loss", *names}


def test_the_optimizer_is_adam_as_published(task):
    optimizer = task.train_model.optimizer
    assert isinstance(optimizer, keras.optimizers.Adam)
    config = optimizer.get_config()
    assert (config["beta_1"], config["beta_2"], config["epsilon"]) == (0.9, 0.997, 1e-9)
    schedule = config["learning_rate"]["config"]
    assert schedule == WarmupInverseSquareRoot(0.2, 32, 2).get_config()


def test_both_models_can_be_saved(task, tmp_path):
    for number, model in enumerate((task.train_model, task.predict_model)):
        model.save(tmp_path / f"{number}.keras")
    trained = keras.models.load_model(tmp_path / "0.keras")
    np.testing.assert_array_equal(
        trained.predict_on_batch((SOURCES, TARGETS)),
        task.train_model.predict_on_batch((SOURCES, TARGETS)),
    )
    assert trained.optimizer.get_config() == task.train_model.optimizer.get_config()
    translating = keras.models.load_model(tmp_path / "1.keras")
    np.testing.assert_array_equal(
        translating.predict_on_batch(SOURCES)["scores"],
        task.predict_model.predict_on_batch(SOURCES)["scores"],
    )


def test_a_network_of_other_parameters_is_refused():
    with pytest.raises(ValueError, match="other parameters"):
        create_model(Transformer(PARAMS), PARAMS.replace(alpha=1.0), is_train=True)
