"""Training steps of every kind give in replicas what TensorFlow gives, with no needless gather."""

from __future__ import annotations

import pytest
import steps_of_batches
import steps_of_data
import steps_of_loops
import steps_of_shapes
from cases import cases
from step_replicas import StepInReplicas, assert_step, gathered

STEPS = {
    name: case
    for module in (steps_of_shapes, steps_of_batches, steps_of_loops, steps_of_data)
    for name, case in module.STEPS.items()
}


# One row in some replicas, as many rows as other axes have; uneven ones; even ones; a row in each.
@cases("rows_and_replicas", [(4, 3)], thorough=[(5, 2), (6, 3), (5, 5)], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_a_step_in_replicas_is_that_of_the_whole_batch(
    name: str, rows_and_replicas: tuple[int, int]
) -> None:
    case, (rows, replicas) = STEPS[name], rows_and_replicas
    weights = case.new_weights()
    batches = [case.batch(rows), case.batch(rows, seed=1)]
    step = StepInReplicas(case.train_step(weights), batches[0], variables=[weights])
    assert_step(step, *batches, replicas=[replicas], rtol=case.rtol)
    assert set(gathered(step)) <= set(GATHERED.get(name, "").split())


# The types of operations that need other rows than their own, or that have no rule, by step.
GATHERED = {
    # Branches keep rows and other values for their derivatives in one place.
    "conditions_in_a_loop": "MatMul Mul",
    "losses_chosen_by_conditions": "Mul",
    "rows_repeated_by_other_counts": "GatherV2",
    "columns_repeated": "GatherV2",
    "rows_mixed_with_features_by_a_reshape": "Reshape",
    "rows_split_by_a_reshape_that_shifts_them": "Reshape",
    "transposed_twice_and_reversed": "ReverseV2",
    "columns_rolled_and_rows_rolled": "Roll",
    "next_row_minus_this_one": "StridedSlice",
    "strides_along_features_and_rows": "StridedSlice",
    "slices_by_half": "StridedSlice",
    "rows_joined_with_learned_rows": "ConcatV2",
    "rows_joined_with_themselves_but_one": "ConcatV2 StridedSlice",
    "three_blocks_split_unevenly": "SplitV",
    "rows_padded_with_rows": "Pad",
    "rows_padded_by_mirrors": "MirrorPad",
    "rows_picked_by_a_permutation": "GatherV2 TopKV2",
    "weights_picked_by_the_row": "ConcatV2",
    "rows_scattered_into_slots": "TensorScatterAdd TensorScatterMax",
    "rows_scattered_over_weights": "TensorScatterSub TensorScatterUpdate",
    "weights_scattered_over_rows": "TensorScatterUpdate",
    "segments_of_rows": "SegmentSum TopKV2",
    "masked_rows": "GatherV2",
    "triangles_of_the_batch": "MatrixBandPart MatrixDiagPartV3 MatrixSetDiagV3",
    "rows_on_diagonals": "MatrixDiagV3",
    "diagonals_of_the_batch_by_einsum": "Einsum",
    "pairs_above_the_diagonal": "GatherV2",
    "totals_of_every_kind": "Cumprod EuclideanNorm",
    "totals_of_whole_numbers": "Mean",
    "cumulated_over_rows_and_over_features": "Cumprod Cumsum",
    "sorted_over_rows_and_over_features": "ArgMax ArgMin TopKV2",
    "best_rows_and_best_features": "TopKV2",
    "quantiles_of_the_batch": "TopKV2",
    "softmax_over_rows_and_over_features": "LogSoftmax Softmax",
    "risk_sets_in_the_order_of_times": "GatherV2 TopKV2",
    "kernels_between_rows": "MatrixDiagPartV3 MatrixSetDiagV3",
    "whitened": "MatrixTriangularSolve",
    "determinants_and_inverses_of_the_batch": (
        "Cholesky MatrixDeterminant MatrixInverse MatrixSolve"
    ),
    "matrices_of_each_row": "MatrixSolve",
    "singular_values_of_the_batch": "ConcatV2",
    "spectra_of_rows_and_of_the_batch": "FFT FFT2D",
    "rows_where_something_holds": "GatherNd GatherV2",
    "rows_as_filters_and_as_channels": "AvgPool Conv2D Conv2DBackpropFilter MaxPool MaxPoolGrad",
    "slope_fitted_to_the_batch": "Cholesky ConcatV2 MatMul MatrixTriangularSolve",
    "rows_alternate_between_axes": "StridedSlice",
    "a_branch_in_a_loop": "AddN",
    "a_loop_in_a_branch": "MatMul",
    "branches_of_other_sizes": "AddN MatMul StridedSlice",
    "one_of_four_branches": "Mul Sum",
    "rows_read_one_by_one_from_a_list": "AddN MatMul",
    "a_list_split_and_scattered": "StridedSlice",
    "a_list_that_grows": "Sum",
    "scanned_over_rows": "MatMul",
    "folded_over_rows": "MatMul",
    "mapped_over_rows_with_branches": "MatMul",
    "vectorized_over_rows": "GatherV2",
    "vectorized_over_rows_with_the_batch_inside": "GatherV2",
    "computed_again_for_the_gradient": "StridedSlice",
    "a_loop_over_all_pairs_of_rows": "Roll",
    "boxes_suppressed_over_the_batch": "GatherV2",
    "fused_batch_norm_over_all_rows": "FusedBatchNormGradV3 FusedBatchNormV3",
    "drawn_in_a_loop_and_in_a_branch": "Mul",
    "mixed_with_other_rows": "GatherV2 StridedSlice StridedSliceGrad",
    "ragged_by_lengths": "GatherV2",
    "ragged_functions": "GatherV2",
    "embeddings_summed_over_bags": "GatherV2 Mul Sum",
    "losses_of_classes": "SoftmaxCrossEntropyWithLogits",
    "bits": "Bitcast",
    "experts_with_places_for_some_rows": "Cumsum",
    "numbers_of_python_functions": "AddV2",
}
