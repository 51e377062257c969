/* Uses every function of the C interface the way a C program would: one rank,
 * strict C99. Exit code 0, or the line of the first check that failed. */
#include <stdio.h>
#include <string.h>

#include "tnt/comm/tnt_comm.h"

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "line %d: %s\n%s\n", __LINE__, #condition,                \
              tnt_comm_last_error());                                           \
      return 1;                                                                 \
    }                                                                           \
  } while (0)

int main(void) {
  float values[3] = {1.0F, 2.0F, 3.0F};
  float sums[3] = {0.0F, 0.0F, 0.0F};
  const tnt_call barrier = {.kind = TNT_COMM_BARRIER};
  tnt_call sum = {.kind = TNT_COMM_ALLREDUCE, .in = values, .out = sums, .count = 3,
                  .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM};
  int32_t rank = -1;
  int32_t size = -1;
  uint64_t total = 0;

  CHECK(tnt_comm_abi_version() == TNT_COMM_ABI_VERSION);
  CHECK(tnt_comm_init() == TNT_COMM_OK);
  CHECK(tnt_comm_rank(&rank) == TNT_COMM_OK && rank == 0);
  CHECK(tnt_comm_size(&size) == TNT_COMM_OK && size == 1);
  CHECK(tnt_comm_set_label("begin", "program.c") == TNT_COMM_OK);
  CHECK(tnt_group_run(TNT_GROUP_WORLD, &barrier, 0) == TNT_COMM_OK);
  CHECK(tnt_comm_set_label(NULL, NULL) == TNT_COMM_OK);
  CHECK(tnt_group_run(TNT_GROUP_WORLD, &sum, 0) == TNT_COMM_OK);
  CHECK(memcmp(values, sums, sizeof values) == 0);

  sum.kind = (tnt_comm_kind)8;
  CHECK(tnt_group_run(TNT_GROUP_WORLD, &sum, 0) == TNT_COMM_USAGE);
  CHECK(strstr(tnt_comm_last_error(), "`kind`") != NULL);
  CHECK(tnt_group_run(TNT_GROUP_WORLD, NULL, 0) == TNT_COMM_USAGE);
  CHECK(strstr(tnt_comm_last_error(), "`call`") != NULL);
  CHECK(tnt_reducer_start(7, 0, values, 1.0) == TNT_COMM_USAGE);
  CHECK(strstr(tnt_comm_last_error(), "handle 7") != NULL);
  CHECK(tnt_reducer_finish(-1, 0, sums) == TNT_COMM_USAGE);
  CHECK(tnt_gatherer_start(0, values, 4) == TNT_COMM_USAGE);
  CHECK(tnt_gatherer_wait(0, NULL, &total) == TNT_COMM_USAGE);
  CHECK(tnt_gatherer_finish(0, sums) == TNT_COMM_USAGE);

  CHECK(tnt_comm_finalize() == TNT_COMM_OK);
  CHECK(tnt_group_run(TNT_GROUP_WORLD, &barrier, 0) == TNT_COMM_USAGE);
  return 0;
}
