"""What `tnt.explain` prints of the models of a script."""

import contextlib
import io

import tarantella as tnt


def tables_of(script):
    """Run a script that trains models of `tnt.Model`, and return what is said of each."""
    models = []

    def recorded(*args, **kwargs):
        models.append(tnt.Model(*args, **kwargs))
        return models[-1]

    script = script.replace("tnt.Model(", "recorded(")
    exec(compile(script, "train.py", "exec"), {"recorded": recorded})
    return [explained(model) for model in models]


def explained(model):
    """Return what `tnt.explain` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        tnt.explain(model)
    return printed.getvalue().strip()
