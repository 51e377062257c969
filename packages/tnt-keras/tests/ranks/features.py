"""All features of which there is one run; each function returns numpy values."""

from __future__ import annotations

from fit_and_predict import arrays, infinite_data, on_batch, several_rows_per_sample
from losses_and_metrics import class_weights, ignored_class, many_metrics, several_outputs
from optimizer_options import accumulation
from subclassed_models import counting_layer, custom_step

WITHOUT_ARGUMENTS = [
    ignored_class,
    class_weights,
    arrays,
    several_outputs,
    custom_step,
    many_metrics,
    on_batch,
    accumulation,
    infinite_data,
    several_rows_per_sample,
    counting_layer,
]

SHOWN_ELSEWHERE = {
    accumulation,
    arrays,
    class_weights,
    custom_step,
    many_metrics,
    on_batch,
    several_outputs,
}
"""Those that tests of inputs, own steps and methods, accumulation and the table have too."""
