/* Calls of the C interface on several ranks; the argument says which. Exit status 0, or
 * the line of the first check that failed, on stderr. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tnt/comm/tnt_comm.h"

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "rank %d, line %d: %s\n%s\n", (int)rank, __LINE__, #condition, \
              tnt_comm_last_error());                                                \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)
#define CHECK_OK(call) CHECK((call) == TNT_COMM_OK)
#define CALL(...) (&(tnt_call){.kind = TNT_COMM_##__VA_ARGS__})

enum { MOST_RANKS = 8, JOB_TIMEOUT = 0 };

static int32_t rank = -1;
static int32_t size = -1;

static void join(void) {
  int32_t local = -1;
  int32_t is_initialized = -1;
  CHECK_OK(tnt_comm_is_initialized(&is_initialized));
  CHECK(is_initialized == 0);
  CHECK_OK(tnt_comm_init());
  CHECK_OK(tnt_comm_is_initialized(&is_initialized));
  CHECK(is_initialized == 1);
  CHECK_OK(tnt_comm_rank(&rank));
  CHECK_OK(tnt_comm_size(&size));
  CHECK_OK(tnt_comm_local_rank(&local));
  CHECK(local == rank);
  CHECK_OK(tnt_comm_local_size(&local));
  CHECK(local == size);
}

static void check_collectives(int64_t group, int32_t own, int32_t members) {
  int32_t mine[4] = {own + 1, own + 1, own + 1, own + 1};
  int32_t sums[4] = {0, 0, 0, 0};
  double root_value = own == members - 1 ? 7.5 : 0.0;
  int16_t block[MOST_RANKS];
  int16_t blocks[MOST_RANKS * MOST_RANKS];
  uint64_t counts[MOST_RANKS];
  uint8_t rows[(MOST_RANKS + 1) * 2];
  uint8_t part[4] = {0, 0, 0, 0};
  const int32_t sum = members * (members + 1) / 2;

  CHECK_OK(tnt_group_run(group, CALL(BARRIER), JOB_TIMEOUT));
  CHECK_OK(tnt_group_run(group,
                         CALL(ALLREDUCE, .in = mine, .out = sums, .count = 4,
                              .dtype = TNT_COMM_INT32, .op = TNT_COMM_SUM),
                         60.0));
  for (int i = 0; i < 4; ++i) CHECK(sums[i] == sum);
  CHECK_OK(tnt_group_run(group,
                         CALL(ALLREDUCE, .in = mine, .out = mine, .count = 4,
                              .dtype = TNT_COMM_INT32, .op = TNT_COMM_MAX),
                         JOB_TIMEOUT));
  for (int i = 0; i < 4; ++i) CHECK(mine[i] == members);
  CHECK_OK(tnt_group_run(group,
                         CALL(BROADCAST, .in = &root_value, .out = &root_value, .count = 1,
                              .dtype = TNT_COMM_FLOAT64, .root = members - 1),
                         INFINITY));
  CHECK(root_value == 7.5);

  /* Member r gives r elements of value r. */
  for (int i = 0; i < own; ++i) block[i] = (int16_t)own;
  CHECK_OK(tnt_group_run(
      group,
      CALL(ALLGATHER, .in = block, .out = blocks, .count = (uint64_t)own, .dtype = TNT_COMM_INT16,
           .capacity = MOST_RANKS * MOST_RANKS, .counts = counts),
      JOB_TIMEOUT));
  for (int32_t r = 0, k = 0; r < members; ++r) {
    CHECK(counts[r] == (uint64_t)r);
    for (int32_t i = 0; i < r; ++i, ++k) CHECK(blocks[k] == r);
  }
  /* Only the first has too little room. */
  memset(counts, 0, sizeof counts);
  {
    const uint64_t capacity = own == 0 ? 0 : MOST_RANKS * MOST_RANKS;
    const int is_short = own == 0 && members > 1;
    const tnt_comm_status status =
        tnt_group_run(group,
                      CALL(ALLGATHER, .in = block, .out = blocks, .count = (uint64_t)own,
                           .dtype = TNT_COMM_INT16, .capacity = capacity, .counts = counts),
                      JOB_TIMEOUT);
    CHECK(status == (is_short ? TNT_COMM_USAGE : TNT_COMM_OK));
    CHECK(counts[members - 1] == (uint64_t)(members - 1));
  }

  /* One row more than members, of two elements: the first member gets two rows. */
  for (int i = 0; i < (members + 1) * 2; ++i) rows[i] = (uint8_t)(i + own);
  CHECK_OK(
      tnt_group_run(group,
                    CALL(REDUCE_SCATTER, .in = rows, .out = part, .count = (uint64_t)members + 1,
                         .row_elements = 2, .dtype = TNT_COMM_UINT8, .op = TNT_COMM_MIN),
                    JOB_TIMEOUT));
  for (int i = 0; i < (own == 0 ? 4 : 2); ++i) CHECK(part[i] == (own == 0 ? 0 : 2 + 2 * own) + i);
}

/* Row r of an array of member m, of two elements, is m + r: rows is one more than members. */
static void fill_rows(uint8_t* rows, int32_t own, int32_t members) {
  for (int32_t i = 0; i < (members + 1) * 2; ++i) rows[i] = (uint8_t)(own + i / 2);
}

/* What alltoall and scatter give: the first member has the first two rows, the others one. */
static void check_part(const uint8_t* part, int32_t from, int32_t own) {
  if (own == 0) CHECK(part[0] == from && part[1] == from && part[2] == from + 1);
  if (own > 0) CHECK(part[0] == from + own + 1 && part[1] == from + own + 1);
}

static void check_parts(int64_t group, int32_t own, int32_t members) {
  uint8_t rows[(MOST_RANKS + 1) * 2];
  uint8_t parts[MOST_RANKS * 4];
  int16_t blocks[MOST_RANKS * MOST_RANKS];
  uint64_t counts[MOST_RANKS];
  const uint64_t num_rows = (uint64_t)members + 1;
  const int32_t last = members - 1;
  const int32_t num_own = own == 0 ? 4 : 2;
  const int16_t mine[MOST_RANKS] = {(int16_t)own, (int16_t)own, (int16_t)own};

  fill_rows(rows, own, members);
  CHECK_OK(tnt_group_run(group,
                         CALL(ALLTOALL, .in = rows, .out = parts, .count = num_rows,
                              .row_elements = 2, .dtype = TNT_COMM_UINT8),
                         JOB_TIMEOUT));
  for (int32_t m = 0; m < members; ++m) check_part(parts + m * num_own, m, own);
  CHECK_OK(
      tnt_group_run(group,
                    CALL(SCATTER, .in = own == last ? rows : NULL, .out = parts, .count = num_rows,
                         .row_elements = 2, .dtype = TNT_COMM_UINT8, .root = last),
                    JOB_TIMEOUT));
  check_part(parts, last, own);

  /* Member m gives m elements of value m (of three members at most). */
  memset(counts, 0, sizeof counts);
  CHECK_OK(tnt_group_run(group,
                         CALL(GATHER, .in = mine, .out = own == last ? blocks : NULL,
                              .count = (uint64_t)own, .dtype = TNT_COMM_INT16, .root = last,
                              .capacity = MOST_RANKS * MOST_RANKS, .counts = counts),
                         60.0));
  for (int32_t m = 0, k = 0; m < members; ++m) {
    CHECK(counts[m] == (uint64_t)m);
    for (int32_t i = 0; own == last && i < m; ++i, ++k) CHECK(blocks[k] == m);
  }
}

/* All collectives in flight at once; the first is closed at once, and none waited for in order. */
static void check_requests(int64_t group, int32_t own, int32_t members) {
  enum { BARRIER, ALLREDUCE, BROADCAST, ALLGATHER, GATHER, REDUCE_SCATTER, ALLTOALL, SCATTER, ALL };
  int64_t requests[ALL];
  int64_t dropped = -1;
  int32_t is_done = -1;
  int32_t forgotten = own;
  int32_t mine[2] = {own, 1};
  int32_t sums[2] = {0, 0};
  double root_value = own == 0 ? 7.5 : 0.0;
  const int16_t block = (int16_t)own;
  int16_t blocks[MOST_RANKS];
  uint64_t counts[MOST_RANKS];
  uint8_t rows[(MOST_RANKS + 1) * 2];
  uint8_t least[4];
  uint8_t parts[MOST_RANKS * 4];
  uint8_t part[4];
  const uint64_t num_rows = (uint64_t)members + 1;

  fill_rows(rows, own, members);
  CHECK_OK(tnt_group_start(group,
                           CALL(BROADCAST, .in = &forgotten, .out = &forgotten, .count = 1,
                                .dtype = TNT_COMM_INT32, .root = 0),
                           &dropped));
  CHECK_OK(tnt_request_close(dropped));
  CHECK_OK(tnt_group_start(group, CALL(BARRIER), &requests[BARRIER]));
  CHECK_OK(tnt_group_start(group,
                           CALL(ALLREDUCE, .in = mine, .out = sums, .count = 2,
                                .dtype = TNT_COMM_INT32, .op = TNT_COMM_SUM),
                           &requests[ALLREDUCE]));
  CHECK_OK(tnt_group_start(group,
                           CALL(BROADCAST, .in = &root_value, .out = &root_value, .count = 1,
                                .dtype = TNT_COMM_FLOAT64, .root = 0),
                           &requests[BROADCAST]));
  CHECK_OK(tnt_group_start(group,
                           CALL(ALLGATHER, .in = &block, .count = 1, .dtype = TNT_COMM_INT16),
                           &requests[ALLGATHER]));
  CHECK_OK(tnt_group_start(
      group, CALL(GATHER, .in = &block, .count = 1, .dtype = TNT_COMM_INT16, .root = 0),
      &requests[GATHER]));
  CHECK_OK(tnt_group_start(group,
                           CALL(REDUCE_SCATTER, .in = rows, .out = least, .count = num_rows,
                                .row_elements = 2, .dtype = TNT_COMM_UINT8, .op = TNT_COMM_MIN),
                           &requests[REDUCE_SCATTER]));
  CHECK_OK(tnt_group_start(group,
                           CALL(ALLTOALL, .in = rows, .out = parts, .count = num_rows,
                                .row_elements = 2, .dtype = TNT_COMM_UINT8),
                           &requests[ALLTOALL]));
  CHECK_OK(tnt_group_start(group,
                           CALL(SCATTER, .in = rows, .out = part, .count = num_rows,
                                .row_elements = 2, .dtype = TNT_COMM_UINT8, .root = 0),
                           &requests[SCATTER]));

  CHECK_OK(tnt_request_wait(requests[SCATTER], 60.0));
  check_part(part, 0, own);
  for (int i = 0; i < ALL; ++i) {
    CHECK_OK(tnt_request_test(requests[i], &is_done)); /* those before the last are done, too */
    CHECK(is_done == 1);
    CHECK_OK(tnt_request_wait(requests[i], JOB_TIMEOUT));
  }
  CHECK(forgotten == 0);
  CHECK(sums[0] == members * (members - 1) / 2 && sums[1] == members);
  CHECK(root_value == 7.5);
  check_part(least, 0, own);
  for (int32_t m = 0; m < members; ++m) check_part(parts + m * (own == 0 ? 4 : 2), m, own);
  CHECK(tnt_request_wait_blocks(requests[ALLREDUCE], blocks, MOST_RANKS, counts, JOB_TIMEOUT) ==
        TNT_COMM_USAGE);
  CHECK_OK(tnt_request_wait_blocks(requests[ALLGATHER], blocks, MOST_RANKS, counts, JOB_TIMEOUT));
  for (int32_t m = 0; m < members; ++m) CHECK(counts[m] == 1 && blocks[m] == m);
  memset(blocks, 0, sizeof blocks);
  CHECK_OK(tnt_request_wait_blocks(requests[GATHER], own == 0 ? blocks : NULL, MOST_RANKS, NULL,
                                   JOB_TIMEOUT));
  for (int32_t m = 0; own == 0 && m < members; ++m) CHECK(blocks[m] == m);
  for (int i = 0; i < ALL; ++i) CHECK_OK(tnt_request_close(requests[i]));
  CHECK(tnt_request_wait(requests[0], JOB_TIMEOUT) == TNT_COMM_USAGE);
  CHECK(tnt_request_close(requests[0]) == TNT_COMM_USAGE);
}

/* Large enough to be reduced where it is. */
static void check_array(int64_t group, int32_t own, int32_t members) {
  enum { COUNT = 100000 };
  void* data = NULL;
  int64_t array = -1;

  CHECK_OK(tnt_array_create(group, COUNT * sizeof(float), &data, &array));
  CHECK((uintptr_t)data % 64 == 0);
  for (int i = 0; i < COUNT; ++i) ((float*)data)[i] = (float)(own + 1);
  CHECK_OK(tnt_group_run(group,
                         CALL(ALLREDUCE, .in = data, .out = data, .count = COUNT,
                              .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM),
                         60.0));
  for (int i = 0; i < COUNT; ++i) CHECK(((float*)data)[i] == (float)(members * (members + 1) / 2));
  CHECK_OK(tnt_array_close(array));
  CHECK(tnt_array_close(array) == TNT_COMM_USAGE);
}

static void check_group(int64_t group, int32_t own, int32_t members) {
  check_collectives(group, own, members);
  check_parts(group, own, members);
  check_requests(group, own, members);
  check_array(group, own, members);
}

static void check_groups(void) {
  int32_t all[MOST_RANKS];
  int32_t alone = rank;
  int64_t group = -1;
  int64_t single = -1;
  int32_t number = -1;

  for (int32_t r = 0; r < size; ++r) all[r] = r;
  CHECK_OK(tnt_group_size(TNT_GROUP_WORLD, &number));
  CHECK(number == size);
  check_group(TNT_GROUP_WORLD, rank, size);

  CHECK_OK(tnt_group_create(all, size, &group));
  CHECK_OK(tnt_group_create(&alone, 1, &single));
  CHECK(group != single);
  check_group(group, rank, size);
  check_group(single, 0, 1);
  CHECK_OK(tnt_group_rank(group, &number));
  CHECK(number == rank);
  CHECK_OK(tnt_group_rank(single, &number));
  CHECK(number == 0);
  CHECK_OK(tnt_group_close(group));
  CHECK_OK(tnt_group_close(single));
  CHECK(tnt_group_run(group, CALL(BARRIER), JOB_TIMEOUT) == TNT_COMM_USAGE);
  CHECK(tnt_group_close(group) == TNT_COMM_USAGE);

  if (size < 3) return;
  /* Ranks that are no neighbours. */
  if (rank != 1) {
    int32_t ends[2] = {0, 2};
    int32_t ranks[2] = {-1, -1};
    CHECK_OK(tnt_group_create(ends, 2, &group));
    CHECK_OK(tnt_group_ranks(group, ranks));
    CHECK(ranks[0] == 0 && ranks[1] == 2);
    check_group(group, rank / 2, 2);
    CHECK_OK(tnt_group_close(group));
  }
}

static void check_reducer(tnt_comm_dtype wire_dtype) {
  static float large[20000];
  static const tnt_tensor_spec tensors[4] = {{"large", TNT_COMM_FLOAT32, 20000},
                                             {NULL, TNT_COMM_FLOAT32, 3},
                                             {"empty", TNT_COMM_FLOAT32, 0},
                                             {"counts", TNT_COMM_INT64, 2}};
  const float factor = (float)(size * (size + 1) / 2);
  float small[3] = {0.5F, 1.0F, 1.5F};
  int64_t counts[2] = {rank, 1};
  int64_t reducer = -1;
  uint64_t number = 0;

  CHECK_OK(tnt_reducer_create(TNT_GROUP_WORLD, tensors, 4, 1 << 20, wire_dtype, NULL, &reducer));
  CHECK_OK(tnt_reducer_num_tensors(reducer, &number));
  CHECK(number == 4);
  CHECK_OK(tnt_reducer_num_buckets(reducer, &number));
  CHECK(number == 2);
  CHECK_OK(tnt_reducer_num_bytes(reducer, &number));
  CHECK(number == 20003 * 4 + 2 * 8);
  CHECK_OK(tnt_reducer_tensor_bytes(reducer, 3, &number));
  CHECK(number == 16);
  CHECK(tnt_reducer_tensor_bytes(reducer, 4, &number) == TNT_COMM_USAGE);
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 20000; ++i) large[i] = (float)(i % 16);
    CHECK(tnt_reducer_start(reducer, 0, NULL, 1.0) == TNT_COMM_USAGE);
    CHECK_OK(tnt_reducer_start_into(reducer, 0, large, large, rank + 1, NULL, NULL));
    CHECK_OK(tnt_reducer_start(reducer, 1, small, rank + 1));
    CHECK_OK(tnt_reducer_start(reducer, 2, NULL, 1.0));
    CHECK_OK(tnt_reducer_start(reducer, 3, counts, 1.0));
    CHECK_OK(tnt_reducer_finish(reducer, 0, NULL));
    {
      float sums[3];
      int64_t total[2];
      CHECK_OK(tnt_reducer_finish(reducer, 1, sums));
      CHECK_OK(tnt_reducer_finish(reducer, 2, NULL));
      CHECK_OK(tnt_reducer_finish(reducer, 3, total));
      for (int i = 0; i < 3; ++i) CHECK(sums[i] == factor * small[i]);
      for (int i = 0; i < 20000; ++i) CHECK(large[i] == factor * (float)(i % 16));
      CHECK(total[0] == size * (size - 1) / 2 && total[1] == size);
    }
  }
  CHECK_OK(tnt_reducer_close(reducer));
  CHECK(tnt_reducer_num_tensors(reducer, &number) == TNT_COMM_USAGE);
}

static void check_gatherer(void) {
  uint64_t sizes[MOST_RANKS];
  uint64_t total = 0;
  char blocks[MOST_RANKS * MOST_RANKS];
  int64_t gatherer = -1;
  int32_t number = -1;

  CHECK_OK(tnt_gatherer_create(TNT_GROUP_WORLD, "names", &gatherer));
  CHECK_OK(tnt_gatherer_size(gatherer, &number));
  CHECK(number == size);
  CHECK_OK(tnt_gatherer_set_timeout(gatherer, 60.0));
  CHECK(tnt_gatherer_start(gatherer, NULL, 1) == TNT_COMM_USAGE);
  CHECK_OK(tnt_gatherer_start(gatherer, "abcdefgh", (uint64_t)rank));
  CHECK_OK(tnt_gatherer_wait(gatherer, sizes, &total));
  for (int32_t r = 0; r < size; ++r) CHECK(sizes[r] == (uint64_t)r);
  CHECK(total == (uint64_t)(size * (size - 1) / 2));
  if (total > 0) CHECK(tnt_gatherer_finish(gatherer, NULL) == TNT_COMM_USAGE);
  CHECK_OK(tnt_gatherer_finish(gatherer, blocks));
  if (size == 3) CHECK(memcmp(blocks, "aab", 3) == 0);
  CHECK_OK(tnt_gatherer_close(gatherer));
  CHECK(tnt_gatherer_size(gatherer, &number) == TNT_COMM_USAGE);
}

/* Equal labels match, whoever the callers are; others are a mismatch, which names both. */
static void check_labels(void) {
  int32_t all[MOST_RANKS];
  int64_t group = -1;
  int64_t gatherer = -1;
  float value = 1;
  char caller[16];

  for (int32_t r = 0; r < size; ++r) all[r] = r;
  snprintf(caller, sizeof caller, "train.c:%d", (int)rank);
  CHECK_OK(tnt_gatherer_create(TNT_GROUP_WORLD, "labelled", &gatherer));
  CHECK_OK(tnt_comm_set_label("step: end", caller));
  CHECK_OK(tnt_group_run(TNT_GROUP_WORLD,
                         CALL(ALLREDUCE, .in = &value, .out = &value, .count = 1,
                              .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM),
                         JOB_TIMEOUT));
  CHECK(value == (float)size);
  CHECK_OK(tnt_gatherer_start(gatherer, caller, 1));
  CHECK_OK(tnt_gatherer_wait(gatherer, NULL, NULL));
  CHECK_OK(tnt_gatherer_close(gatherer));
  if (size == 1) return;

  CHECK_OK(tnt_group_create(all, size, &group)); /* the label is not that of creations */
  CHECK_OK(tnt_gatherer_create(group, "labelled", &gatherer));
  CHECK_OK(tnt_comm_set_label(rank == 0 ? "rows of a" : "rows of b", caller));
  CHECK_OK(tnt_gatherer_start(gatherer, caller, 1));
  CHECK_OK(tnt_comm_set_label(NULL, NULL));
  CHECK(tnt_gatherer_wait(gatherer, NULL, NULL) == TNT_COMM_MISMATCH);
  CHECK(strstr(tnt_comm_last_error(), "'rows of a' from train.c:0") != NULL);
  CHECK(strstr(tnt_comm_last_error(), "'rows of b' from train.c:1") != NULL);

  CHECK_OK(tnt_group_create(all, size, &group));
  CHECK_OK(tnt_comm_set_label(rank == 0 ? "sum" : NULL, ""));
  CHECK(tnt_group_run(group,
                      CALL(ALLREDUCE, .in = &value, .out = &value, .count = 1,
                           .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM),
                      60.0) == TNT_COMM_MISMATCH);
  CHECK(strstr(tnt_comm_last_error(), "rank 0 called allreduce") != NULL);
  CHECK(strstr(tnt_comm_last_error(), "'sum'") != NULL);
  CHECK_OK(tnt_comm_set_label(NULL, NULL));
}

/* A wrong argument is found before anything is sent, whichever rank makes it. */
static void check_arguments(void) {
  float values[4] = {0, 0, 0, 0};
  uint64_t number = 0;
  int64_t handle = -1;
  int32_t self = rank;
  const tnt_tensor_spec wrong = {"x", (tnt_comm_dtype)77, 1};
  const int64_t world = TNT_GROUP_WORLD;

#define CHECK_USAGE(call, part)                    \
  CHECK((call) == TNT_COMM_USAGE);                 \
  CHECK(tnt_comm_last_status() == TNT_COMM_USAGE); \
  CHECK(strstr(tnt_comm_last_error(), part) != NULL)

  CHECK_USAGE(tnt_comm_rank(NULL), "`rank`");
  CHECK_USAGE(tnt_group_create(NULL, 1, &handle), "`ranks`");
  CHECK_USAGE(tnt_group_create(&self, 0, &handle), "num_ranks=0");
  CHECK_USAGE(tnt_group_create(&self, 1, NULL), "`group`");
  CHECK_USAGE(tnt_group_close(world), "handle 0");
  CHECK_USAGE(tnt_group_run(world, CALL(BARRIER), -1.0), "timeout_s=-1");
  CHECK_USAGE(tnt_group_run(world, CALL(BARRIER), (double)NAN), "timeout_s=");
  CHECK_USAGE(tnt_group_run(99, CALL(BARRIER), 0), "handle 99");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(ALLREDUCE, .in = values, .out = NULL, .count = 4,
                                 .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM),
                            0),
              "`out`");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(ALLREDUCE, .in = values, .out = values + 1, .count = 2,
                                 .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM),
                            0),
              "overlap");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(ALLREDUCE, .in = values, .out = values, .count = 4,
                                 .dtype = (tnt_comm_dtype)10, .op = TNT_COMM_SUM),
                            0),
              "`dtype`");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(ALLREDUCE, .in = values, .out = values, .count = 4,
                                 .dtype = TNT_COMM_FLOAT32, .op = (tnt_comm_op)6),
                            0),
              "`op`");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(ALLREDUCE, .in = values, .out = values, .count = 4,
                                 .dtype = TNT_COMM_BOOL, .op = TNT_COMM_SUM),
                            0),
              "'sum' is not defined");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(ALLREDUCE, .in = values, .out = values, .count = UINT64_MAX / 2,
                                 .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM),
                            0),
              "more than any memory holds");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(BROADCAST, .in = values, .out = values, .count = 4,
                                 .dtype = TNT_COMM_FLOAT32, .root = size),
                            0),
              "`root`");
  CHECK_USAGE(
      tnt_group_run(world,
                    CALL(REDUCE_SCATTER, .in = values, .out = values, .count = UINT64_MAX / 2,
                         .row_elements = 8, .dtype = TNT_COMM_INT8, .op = TNT_COMM_SUM),
                    0),
      "more than any memory holds");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(ALLTOALL, .in = values, .out = values, .count = (uint64_t)size,
                                 .row_elements = 1, .dtype = TNT_COMM_FLOAT32),
                            0),
              "overlap");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(ALLTOALL, .in = NULL, .out = values, .count = (uint64_t)size,
                                 .row_elements = 1, .dtype = TNT_COMM_FLOAT32),
                            0),
              "`in`");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(SCATTER, .in = values, .out = NULL, .count = 4 * (uint64_t)size,
                                 .row_elements = 1, .dtype = TNT_COMM_FLOAT32, .root = 0),
                            0),
              "`out`");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(SCATTER, .in = NULL, .out = values, .count = 4, .row_elements = 1,
                                 .dtype = TNT_COMM_FLOAT32, .root = size),
                            0),
              "`root`");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(GATHER, .in = values, .out = NULL, .count = 4,
                                 .dtype = TNT_COMM_FLOAT32, .root = -1, .capacity = 0),
                            0),
              "`root`");
  CHECK_USAGE(tnt_group_run(world,
                            CALL(GATHER, .in = NULL, .out = NULL, .count = 4,
                                 .dtype = TNT_COMM_FLOAT32, .root = 0, .capacity = 0),
                            0),
              "`in`");
  CHECK_USAGE(tnt_group_ranks(world, NULL), "`ranks`");
  CHECK_USAGE(tnt_group_start(world, CALL(BARRIER), NULL), "`request`");
  CHECK_USAGE(tnt_group_start(world,
                              CALL(BROADCAST, .in = values, .out = values, .count = 4,
                                   .dtype = TNT_COMM_FLOAT32, .root = size),
                              &handle),
              "`root`");
  CHECK_USAGE(tnt_request_wait(99, 0), "No request has the handle 99");
  CHECK_USAGE(tnt_request_test(99, &self), "handle 99");
  CHECK_USAGE(tnt_array_create(world, 4, NULL, &handle), "`data`");
  CHECK_USAGE(tnt_array_close(99), "No array has the handle 99");
  CHECK_USAGE(tnt_comm_get_counters(NULL), "`counters`");
  CHECK_USAGE(tnt_reducer_create(world, NULL, 1, 0, TNT_COMM_FLOAT32, "x", &handle), "`tensors`");
  CHECK_USAGE(tnt_reducer_create(world, &wrong, 1, 0, TNT_COMM_FLOAT32, "x", &handle), "77");
  CHECK_USAGE(tnt_reducer_create(world, NULL, 0, 0, TNT_COMM_INT8, "x", &handle), "int8");
  CHECK_USAGE(tnt_reducer_num_tensors(-5, &number), "handle -5");
  CHECK_USAGE(tnt_gatherer_create(world, NULL, &handle), "`name`");
  CHECK_USAGE(tnt_gatherer_create(world, "x", NULL), "`gatherer`");
#undef CHECK_USAGE
}

static void check_counters(void) {
  tnt_comm_counters before;
  tnt_comm_counters after;
  float values[4] = {0, 0, 0, 0};

  CHECK_OK(tnt_comm_get_counters(&before));
  CHECK_OK(tnt_group_run(TNT_GROUP_WORLD,
                         CALL(ALLREDUCE, .in = values, .out = values, .count = 4,
                              .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM),
                         JOB_TIMEOUT));
  CHECK_OK(tnt_comm_get_counters(&after));
  CHECK(after.num_operations == before.num_operations + 1);
  CHECK(after.num_bytes == before.num_bytes + sizeof values);
  CHECK(after.communication_s > before.communication_s);
}

static void check_values(void) {
  check_arguments();
  check_counters();
  check_groups();
  check_reducer(TNT_COMM_FLOAT32);
  check_reducer(TNT_COMM_BFLOAT16);
  check_gatherer();
  check_labels();
}

/* Rank 0 waits in vain for rank 1, which waits outside of the library until rank 0 has
 * seen all timeouts. A broken group does not break the others. */
static void check_timeouts(void) {
  static const tnt_tensor_spec tensor = {"x", TNT_COMM_FLOAT32, 4};
  float values[4] = {1, 2, 3, 4};
  int32_t all[2] = {0, 1};
  int64_t groups[4];
  int64_t request = -1;
  int32_t is_done = -1;
  int64_t reducer = -1;
  int64_t gatherer = -1;

  for (int i = 0; i < 4; ++i) CHECK_OK(tnt_group_create(all, 2, &groups[i]));
  CHECK_OK(tnt_reducer_create(groups[1], &tensor, 1, 0, TNT_COMM_FLOAT32, NULL, &reducer));
  CHECK_OK(tnt_gatherer_create(groups[2], "rows", &gatherer));
  if (rank == 0) {
    CHECK(tnt_group_run(groups[0], CALL(BARRIER), 0.05) == TNT_COMM_TIMEOUT);
    CHECK(tnt_comm_last_status() == TNT_COMM_TIMEOUT);
    CHECK(tnt_group_run(groups[0], CALL(BARRIER), 0.05) == TNT_COMM_TIMEOUT); /* it is broken */
    CHECK_OK(tnt_group_start(groups[3], CALL(BARRIER), &request));
    CHECK_OK(tnt_request_test(request, &is_done));
    CHECK(is_done == 0);
    CHECK(tnt_request_wait(request, 0.05) == TNT_COMM_TIMEOUT);
    CHECK_OK(tnt_request_test(request, &is_done));
    CHECK(is_done == 1);
    CHECK(tnt_reducer_set_timeout(reducer, -1.0) == TNT_COMM_USAGE);
    CHECK_OK(tnt_reducer_set_timeout(reducer, 0.05));
    CHECK_OK(tnt_reducer_start(reducer, 0, values, 1.0));
    CHECK(tnt_reducer_finish(reducer, 0, values) == TNT_COMM_TIMEOUT);
    CHECK_OK(tnt_gatherer_set_timeout(gatherer, 0.05));
    CHECK_OK(tnt_gatherer_start(gatherer, values, 4));
    CHECK(tnt_gatherer_wait(gatherer, NULL, NULL) == TNT_COMM_TIMEOUT);
  }
  CHECK_OK(tnt_group_run(TNT_GROUP_WORLD, CALL(BARRIER), JOB_TIMEOUT));
}

int main(int argc, char** argv) {
  join();
  if (argc > 1 && strcmp(argv[1], "timeouts") == 0) {
    check_timeouts();
  } else {
    check_values();
  }
  CHECK_OK(tnt_comm_finalize());
  CHECK(tnt_group_run(TNT_GROUP_WORLD, CALL(BARRIER), JOB_TIMEOUT) == TNT_COMM_USAGE);
  return 0;
}
