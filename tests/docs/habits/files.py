"""Files of models and trainings."""

import os

import keras
import numpy as np

from habits.row import (
    RATE,
    assert_same,
    compiled,
    distributed,
    habit,
    plain_model,
    run,
    trained,
    value,
)


@habit(
    'if hvd.rank() == 0: model.save("model.keras")',
    "model.save(path if is_chief else temporary_path)",
    'model.save("folder")',
)
def the_master_saves(code):
    model = distributed()
    weights, _ = trained(model)
    run(code, model=model)
    assert os.listdir() == ["model.keras"]
    saved = keras.models.load_model("model.keras").get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(weights, saved, strict=True))


@habit('hvd.load_model("model.keras")')
def training_goes_on(code):
    def make():
        return keras.optimizers.SGD(RATE, momentum=0.9)

    plain = compiled(plain_model(), make())
    trained(plain)
    distributed_model = distributed(optimizer=make())
    trained(distributed_model)
    distributed_model.save("model.keras")
    assert_same(trained(value(code)), trained(plain))


@habit("@hvd.elastic.run")
def a_run_is_continued(code):
    checkpoint, load = code.split("\n")
    trained(distributed(), callbacks=[value(checkpoint)])
    plain = compiled(plain_model())
    trained(plain)
    assert_same(trained(value(load)), trained(plain))
