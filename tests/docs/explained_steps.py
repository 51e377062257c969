"""What ranks exchange in the steps of a script, as the partition of each step tells it."""

import tarantella as tnt


def tables_of(script):
    """Run a script that trains models of `tnt.Model`, and return what is said of their steps."""
    models = []

    def recorded(*args, **kwargs):
        models.append(tnt.Model(*args, **kwargs))
        return models[-1]

    script = script.replace("tnt.Model(", "recorded(")
    exec(compile(script, "train.py", "exec"), {"recorded": recorded})
    steps = [model.train_function.steps.partitions[0] for model in models]
    return [f"{step.explanation.summary}\n\n{step.explanation.table()}" for step in steps]
