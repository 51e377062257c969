"""Say in a sentence what was found, what it is likely to come from, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tnt_keras.probe.comparison.combination import Fit
from tnt_keras.probe.comparison.decision import Decision, Finding
from tnt_keras.probe.runs.observation import Kind
from tnt_keras.probe.runs.tape_gradients import AMPLIFICATION
from tnt_keras.step.errors import GRADIENT_OF_ALL_SAMPLES
from tnt_keras.step.rules import LossCorrection, Rule

_GATHER = (
    "take all rows of the global batch where rows meet, with `tnt.gather_batch(x)`, "
    "`tnt.batch_sum(x)` or `tnt.batch_mean(x, weights)`"
)
_CAUSES = {
    Kind.GRADIENT: (
        "the loss is neither a mean nor a sum over samples (a quotient like "
        "sum(loss * mask) / sum(mask), pairs of samples, statistics of the batch), or it is a sum "
        "to which penalties of weights are added (`sum(model.losses)`), or gradients are clipped, "
        "or those of a loss that is a sum are added up over batches, before the optimizer gets "
        "them",
        f"{_GATHER}, add penalties to a mean, as `tf.reduce_mean(losses)`, clip with the "
        "optimizer's `clipnorm`, `clipvalue` or `global_clipnorm`, and add up with its "
        "`gradient_accumulation_steps`",
    ),
    Kind.METRIC: (
        "the metric takes in a value that is not a mean, sum or maximum over samples (the root of "
        "a mean, a rank correlation, a ratio), or its result is used inside of the step",
        "write it as a `keras.metrics.Metric` whose variables are sums over samples, or maxima (a "
        f"minimum is the maximum of the negative), or {_GATHER}",
    ),
    Kind.VARIABLE: (
        "its new value is not a mean, sum or maximum over samples (a queue of features, a ratio)",
        f"{_GATHER} before it is assigned (a minimum is the maximum of the negative)",
    ),
    Kind.LOG: (
        "it is neither a mean, a sum nor a maximum over samples",
        "keep it in a metric that is an attribute of the model and return `metric.result()`, "
        f"compute it from {GRADIENT_OF_ALL_SAMPLES}, or {_GATHER}",
    ),
    Kind.RESULT: (
        "the metric keeps something outside of its variables, in attributes of Python, or its "
        "result is read before it is updated",
        "keep it in variables, made by `add_weight`, which are sums over samples, and read the "
        "result after the update",
    ),
    Kind.ADDITIONAL_LOSS: (
        "it is neither a mean nor a sum over samples (a product of means, a ratio)",
        _GATHER,
    ),
    Kind.ATTRIBUTE: (
        "the step keeps in Python what it computes from the samples of its rank",
        f"keep it in a variable, made by `add_weight`, or {_GATHER}",
    ),
    Kind.OUTPUT: (
        "it depends on the other rows of the batch",
        f"{_GATHER}, or predict on one rank",
    ),
}
_CLIPPING_CAUSE = (
    "gradients are clipped, or changed otherwise, before the optimizer gets them; these are the "
    f"values for gradients {AMPLIFICATION:.0f} times as large"
)
_PYTHON_CAUSE = "; or the step keeps in Python what it has seen, which is to be in variables"
_ORDER_CAUSE = "the serial value depends on the order of the rows in the batch"
_DRAWS_CAUSE = (
    "the step draws random numbers of {} for its samples, of which each rank draws its own"
)
_RANKS_CAUSE = (
    "the ranks run different code or settings, or were given different data: the serial value "
    "itself is up to {} on rank 0 and {} on rank {}"
)
_RANKS_REMEDY = "make the model, its losses, metrics and data alike on all ranks"
_SAME_CODE = 1e-2
"""Relative difference up to which serial values of ranks are those of the same code, rounded."""
_DRAWS_REMEDY = "draw them in the same shape with `tf.random` or `keras.random`"


def explain_finding(
    finding: Finding,
    step_name: str,
    assigned_weights: Sequence[str] = (),
    python_generators: Sequence[str] = (),
    scales: Sequence[float] = (),
) -> str:
    """Return the sentence on a value that fits no rule. Pure.

    Args:
        finding: The value.
        step_name: In which step.
        assigned_weights: Names of trainable weights that the step assigns by itself.
        python_generators: Those that the step draws from for its samples, such as "random".
        scales: The largest serial entry of the value as each rank has computed it.
    """
    quantity, fit = finding.quantity, finding.fit
    cause, remedy = _CAUSES[quantity.kind]
    if fit.are_amplified:
        cause = _CLIPPING_CAUSE
    if fit.depends_on_order:
        cause = _ORDER_CAUSE
    if finding.needs_other_values:
        cause += (
            "; it shows for samples of other values than the first ones: zeros, large numbers, "
            "other classes, shorter texts, missing labels (NaN, -1, -100, 255), NaN"
        )
        if math.isfinite(fit.serial) and not math.isfinite(fit.of_rule[Rule.MEAN]):
            cause += _PYTHON_CAUSE
    if assigned_weights:
        names = _shortened(list(assigned_weights))
        cause = (
            f"the step assigns to {names} what it computes from the rank's samples, as "
            f"sharpness-aware minimisation does, or {cause}"
        )
        remedy = f"compute what is assigned from {GRADIENT_OF_ALL_SAMPLES}, or {remedy}"
    if python_generators:
        cause = _DRAWS_CAUSE.format(" and ".join(f"`{name}`" for name in python_generators))
        remedy = _DRAWS_REMEDY
    elif (rank := _first_unlike(scales)) is not None:
        cause = _RANKS_CAUSE.format(f"{scales[0]:.6g}", f"{scales[rank]:.6g}", rank)
        remedy = _RANKS_REMEDY
    return (
        f"The {quantity.kind.value} {quantity.name!r} of `{step_name}` would not be that of the "
        f"serial run: it {_verb(quantity.kind)} {_written(fit)[0]} there, while ranks give "
        f"{_of_ranks(finding)}. Likely "
        f"cause: {cause}. Remedy: {remedy}; "
        '`probe="warn"` of `tnt.Model` or `tnt.function` trains all the same.'
    )


def _first_unlike(scales: Sequence[float]) -> int | None:
    """Return the first rank whose serial value is not that of rank 0, but for rounding."""
    unlike = (
        rank
        for rank, scale in enumerate(scales)
        if not math.isclose(scale, scales[0], rel_tol=_SAME_CODE)
        and not (math.isnan(scale) and math.isnan(scales[0]))
    )
    return next(unlike, None)


def _verb(kind: Kind) -> str:
    return "changes by" if kind in (Kind.VARIABLE, Kind.METRIC) else "is"


def _of_ranks(finding: Finding) -> str:
    _, mean, total = _written(finding.fit)
    if finding.quantity.kind is not Kind.OUTPUT:
        return f"{mean} as mean and {total} as sum"
    return "another number of rows" if mean == "nan" else mean


def _written(fit: Fit) -> list[str]:
    """Return the serial value, the mean and the sum with as many digits as tell them apart."""
    values = fit.serial, fit.of_rule[Rule.MEAN], fit.of_rule[Rule.SUM]
    texts = [f"{value:.6g}" for value in values]
    if texts[0] in texts[1:]:
        texts = [f"{value:.12g}" for value in values]
    return texts


def explain_failure_on_part(step_name: str, error: str) -> str:
    """Return the sentence on a step that runs on a batch, but not on its parts. Pure.

    Args:
        step_name: Of the step.
        error: What it raises there.
    """
    return (
        f"`{step_name}` runs on the first batch, but not on the parts of it that ranks have: "
        f"{error}. Likely cause: the number of samples is written in the code of the model or the "
        "step, or more samples are needed than a rank has. Remedy: take the number from "
        "`tf.shape(x)[0]`, make batches larger, or take all rows of the global batch with "
        '`tnt.gather_batch(x)`; `probe="warn"` of `tnt.Model` or `tnt.function` trains all the '
        "same."
    )


def explain_decision(decision: Decision, seconds: float) -> str:
    """Return the line that says what was proved. Pure.

    Args:
        decision: Without findings.
        seconds: That it took.
    """
    counts = " and ".join(
        f"{number} {kind.value}{'s' if number != 1 else ''}"
        for kind, number in decision.num_equal.items()
    )
    parts = [f"proved: {counts or 'nothing'} equal to serial within {decision.deviation:.0e}"]
    for rule in Rule:
        names = [quantity.name for quantity, chosen in decision.chosen.items() if chosen is rule]
        if names:
            parts.append(f"{len(names)} by {rule.value} ({_shortened(names)})")
    if decision.rules.loss_correction is not LossCorrection.ALL:
        parts.append(f"with the denominators of {decision.rules.loss_correction.value} summed")
    if decision.rules.completes_results:
        parts.append("with results of metrics completed inside of the step")
    if decision.undecided:
        names = [quantity.name for quantity in decision.undecided]
        parts.append(f"{len(names)} undecided so far ({_shortened(names)})")
    return ", ".join([*parts, f"{seconds:.1f} s"])


def _shortened(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown}, ..."
