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
  int32_t rank = -1;
  int32_t size = -1;
  uint64_t total = 0;

  CHECK(tnt_comm_abi_version() == TNT_COMM_ABI_VERSION);
  CHECK(tnt_comm_init() == TNT_COMM_OK);
  CHECK(tnt_comm_rank(&rank) == TNT_COMM_OK && rank == 0);
  CHECK(tnt_comm_size(&size) == TNT_COMM_OK && size == 1);
  CHECK(tnt_comm_set_label("begin", "program.c") == TNT_COMM_OK);
  CHECK(tnt_comm_barrier() == TNT_COMM_OK);
  CHECK(tnt_comm_set_label(NULL, NULL) == TNT_COMM_OK);
  CHECK(tnt_comm_allreduce(values, sums, 3, "float32", "sum") == TNT_COMM_OK);
  CHECK(memcmp(values, sums, sizeof values) == 0);
  CHECK(tnt_comm_broadcast(values, 3, "float32", 0) == TNT_COMM_OK);

  CHECK(tnt_comm_allreduce(values, sums, 3, "float31", "sum") == TNT_COMM_USAGE);
  CHECK(strstr(tnt_comm_last_error(), "float31") != NULL);
  CHECK(tnt_reducer_start(7, 0, values, 1.0) == TNT_COMM_USAGE);
  CHECK(strstr(tnt_comm_last_error(), "handle 7") != NULL);
  CHECK(tnt_reducer_finish(-1, 0, sums) == TNT_COMM_USAGE);
  CHECK(tnt_gatherer_start(0, values, 4) == TNT_COMM_USAGE);
  CHECK(tnt_gatherer_wait(0, NULL, &total) == TNT_COMM_USAGE);
  CHECK(tnt_gatherer_finish(0, sums) == TNT_COMM_USAGE);

  CHECK(tnt_comm_finalize() == TNT_COMM_OK);
  CHECK(tnt_comm_barrier() == TNT_COMM_USAGE);
  return 0;
}
