"""Training steps of every kind give in replicas what TensorFlow gives, with no needless gather."""

from __future__ import annotations

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

_SHORT = """
a_branch_in_a_loop a_list_split_and_scattered a_list_that_grows a_loop_in_a_branch
a_loop_in_a_loop_with_totals a_loop_over_all_pairs_of_rows best_rows_and_best_features
branches_of_other_sizes clipped_by_norms columns_repeated complex_totals
computed_again_for_the_gradient counts_and_histograms cumulated_over_rows_and_over_features
determinants_and_inverses_of_the_batch diagonals_of_the_batch_by_einsum doubles
elements_picked_by_coordinates forward_over_backward hard_triplets losses_chosen_by_conditions
matrices_of_each_row mean_over_masked_rows nearest_learned_row numbers_that_are_not_finite
one_of_four_branches ones_zeros_and_fills_like_rows own_gradient_with_totals penalty_on_gradients
ranked_pairs roots_and_logarithms_of_means rows_as_filters_and_as_channels
rows_dealt_into_two_heaps_and_stitched rows_mixed_with_features_by_a_reshape rows_on_diagonals
rows_padded_by_mirrors rows_padded_with_rows rows_scattered_into_slots rows_scattered_over_weights
rows_where_something_holds scanned_over_rows segments_of_rows sequences_reversed_by_their_lengths
slices_of_all_rows_in_disguise softmax_over_rows_and_over_features
sorted_over_rows_and_over_features space_moved_into_rows spectra_of_rows_and_of_the_batch
spread_of_the_batch steps_of_time_read_from_a_list three_blocks_split_unevenly
time_merged_into_rows_and_back totals_of_every_kind totals_of_whole_numbers
totals_through_what_is_not_linear transposed_twice_and_reversed triangles_of_the_batch
truths_about_the_batch unique_labels_and_means_of_their_rows
vectorized_over_rows_with_the_batch_inside views_joined_and_compared_with_each_other
views_joined_and_parted views_joined_in_turn weights_picked_by_the_row whitened
"""
SHORT = frozenset({*_SHORT.split(), *steps_of_data.STEPS})
"""Steps of the short run.

They have every type of operation on rows or totals that all steps have, and of those for which rows
are gathered; each kind of loop, branch, list, function and derivative; and what nothing else does.
"""


# One row in some replicas, as many rows as other axes have; uneven ones; even ones; a row in each.
@cases("rows_and_replicas", [(4, 3)], thorough=[(5, 2), (6, 3), (5, 5)], ids=str)
@cases("name", [name for name in STEPS if name in SHORT], thorough=STEPS)
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
