"""Tell which functions draw random numbers that another run may draw otherwise. No TensorFlow."""

from __future__ import annotations

from tnt_data.description.transformation import Transformation

REMEDY = (
    "draw by tf.random.stateless_uniform and the like, with a seed that comes with the element, "
    "such as those of tf.data.Dataset.zip((samples, tf.data.Dataset.random(seed=7))): then numbers "
    "are the same in every run, on any number of ranks"
)


def find_stateful_draws(last: Transformation) -> list[str]:
    """Return, in sentences, which functions draw by what does not come with the element. Local."""
    return list(dict.fromkeys(filter(None, map(describe_draws, last.walk()))))


def draws_differently(transformation: Transformation) -> bool:
    """Return whether functions of a transformation draw other numbers on other ranks. Local."""
    # They do without a seed, and with one if calls in parallel overtake each other.
    contents = transformation.function_contents
    draws_in_turn = not contents.isdisjoint({"seeded random", "random state"})
    return "random" in contents or (draws_in_turn and not transformation.calls_in_order)


def describe_draws(transformation: Transformation) -> str:
    """Say how functions of a transformation draw other numbers; empty if they do not. Local."""
    contents = transformation.function_contents
    generator = "from a generator of random numbers"
    if "random" in contents:
        return f"{_named(transformation)} draws random numbers without a seed: others in each run"
    if draws_differently(transformation):
        kind = generator if "random state" in contents else "seeded random numbers"
        return (
            f"{_named(transformation)} draws {kind} in parallel calls, which overtake each other: "
            "others in each run"
        )
    if "random state" in contents:
        return (
            f"{_named(transformation)} draws {generator}: others in each run, unless that was "
            "created from a seed"
        )
    return ""


def _named(transformation: Transformation) -> str:
    place = transformation.place
    return f"{transformation.text} at {place}" if place else transformation.text
