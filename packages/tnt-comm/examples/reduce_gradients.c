/* Sums the gradients of a small model over all ranks, step after step, and checks
 * the sums: data-parallel training without the training.
 *
 *     F=$(python -c 'import tnt_comm; print(tnt_comm.include_path())')
 *     L=$(python -c 'import os, tnt_comm; print(os.path.dirname(tnt_comm.library_path()))')
 *     cc -std=c11 -I$F reduce_gradients.c -o reduce_gradients -L$L -ltnt_comm -Wl,-rpath,$L
 *     tarantella -n 2 --python-interpreter "" -- ./reduce_gradients 100
 *
 * Alone it is a job of one rank. Exit status: 0, that of the tnt_comm_status of the
 * call that failed, or 100 if a sum is wrong. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tnt/comm/tnt_comm.h"

enum { NUM_TENSORS = 4, LARGEST = 784 * 128, WRONG_SUM = 100 };

static const tnt_tensor_spec tensors[NUM_TENSORS] = {
    {"hidden/kernel", TNT_COMM_FLOAT32, 784 * 128},
    {"hidden/bias", TNT_COMM_FLOAT32, 128},
    {"output/kernel", TNT_COMM_FLOAT32, 128 * 10},
    {"output/bias", TNT_COMM_FLOAT32, 10},
};

static float gradients[NUM_TENSORS][LARGEST];

/* Ends the program if a call has failed. The other ranks learn of it by themselves. */
static void check(tnt_comm_status status) {
  if (status == TNT_COMM_OK) return;
  fprintf(stderr, "%s\n", tnt_comm_last_error());
  exit((int)status);
}

/* Stands for backpropagation: what this rank computes for element i of a tensor.
 * Whole numbers, whose sums are exact. */
static float gradient(int32_t rank, int64_t step, int tensor, uint64_t i) {
  return (float)((rank + 1) * (tensor + 1)) + (float)((step + (int64_t)i) % 100);
}

/* From the last tensor to the first, as gradients come. A tensor can be used again, or
 * changed, when its start has returned; the sums are formed in the background. */
static void start_all(int64_t reducer, int32_t rank, int64_t step) {
  for (int t = NUM_TENSORS - 1; t >= 0; --t) {
    for (uint64_t i = 0; i < tensors[t].count; ++i) gradients[t][i] = gradient(rank, step, t, i);
    check(tnt_reducer_start(reducer, t, gradients[t], 1.0));
  }
}

/* Waits for the sums, which replace the gradients. */
static void finish_all(int64_t reducer) {
  for (int t = 0; t < NUM_TENSORS; ++t) check(tnt_reducer_finish(reducer, t, gradients[t]));
}

static int are_right(int32_t size, int64_t step) {
  for (int t = 0; t < NUM_TENSORS; ++t) {
    for (uint64_t i = 0; i < tensors[t].count; ++i) {
      float sum = 0.0F;
      for (int32_t rank = 0; rank < size; ++rank) sum += gradient(rank, step, t, i);
      if (gradients[t][i] != sum) {
        fprintf(stderr, "step %" PRId64 ", %s[%" PRIu64 "]: %g instead of %g\n", step,
                tensors[t].name, i, (double)gradients[t][i], (double)sum);
        return 0;
      }
    }
  }
  return 1;
}

int main(int argc, char** argv) {
  const int64_t num_steps = argc > 1 ? strtoll(argv[1], NULL, 10) : 10;
  int32_t rank = 0;
  int32_t size = 0;
  int64_t reducer = 0;
  uint64_t num_buckets = 0;
  uint64_t num_bytes = 0;

  if (tnt_comm_abi_version() != TNT_COMM_ABI_VERSION) {
    fprintf(stderr, "libtnt_comm.so %s has another C interface than the header.\n",
            tnt_comm_version());
    return TNT_COMM_USAGE;
  }
  check(tnt_comm_init());
  check(tnt_comm_rank(&rank));
  check(tnt_comm_size(&size));
  check(tnt_reducer_create(TNT_GROUP_WORLD, tensors, NUM_TENSORS, 4096, TNT_COMM_FLOAT32,
                           "gradients", &reducer));
  check(tnt_reducer_num_buckets(reducer, &num_buckets));
  check(tnt_reducer_num_bytes(reducer, &num_bytes));
  printf("rank %" PRId32 " of %" PRId32 ": %d gradients (%" PRIu64 " bytes) in %" PRIu64
         " buckets\n",
         rank, size, NUM_TENSORS, num_bytes, num_buckets);
  fflush(stdout);

  for (int64_t step = 0; step < num_steps; ++step) {
    start_all(reducer, rank, step);
    finish_all(reducer);
    if (!are_right(size, step)) return WRONG_SUM;
  }
  check(tnt_reducer_close(reducer));
  check(tnt_comm_finalize());
  printf("rank %" PRId32 ": %" PRId64 " steps, all sums are right\n", rank, num_steps);
  return 0;
}
