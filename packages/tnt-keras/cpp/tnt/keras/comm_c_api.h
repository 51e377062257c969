/* Our own declarations of the functions of tnt-comm's C interface that the operations use.
 *
 * The library is opened at run time from the place that the installed tnt_comm names, so that
 * neither package needs the other to be compiled. A test compiles these declarations together with
 * tnt-comm's header. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TNT_COMM_ABI_VERSION
typedef enum {
  TNT_COMM_OK = 0,
  TNT_COMM_USAGE = 1,
  TNT_COMM_ERROR = 2,
  TNT_COMM_TIMEOUT = 3,
  TNT_COMM_PEER_LOST = 4,
  TNT_COMM_MISMATCH = 5
} tnt_comm_status;

typedef enum {
  TNT_COMM_FLOAT16 = 0,
  TNT_COMM_BFLOAT16 = 1,
  TNT_COMM_FLOAT32 = 2,
  TNT_COMM_FLOAT64 = 3,
  TNT_COMM_INT8 = 4,
  TNT_COMM_INT16 = 5,
  TNT_COMM_INT32 = 6,
  TNT_COMM_INT64 = 7,
  TNT_COMM_UINT8 = 8,
  TNT_COMM_BOOL = 9
} tnt_comm_dtype;

/* The operations are named by their numbers, in Python. */
typedef enum { TNT_COMM_SUM = 0 } tnt_comm_op;

typedef enum { TNT_COMM_ALLREDUCE = 1 } tnt_comm_kind;

typedef struct {
  tnt_comm_kind kind;
  const void* in;
  void* out;
  uint64_t count;
  uint64_t row_elements;
  tnt_comm_dtype dtype;
  tnt_comm_op op;
  int32_t root;
  uint64_t capacity;
  uint64_t* counts;
} tnt_call;

#define TNT_GROUP_WORLD 0
#endif

/* The version of the interface that these declarations describe. */
#define TNT_KERAS_COMM_ABI_VERSION 2

int32_t tnt_comm_abi_version(void);
const char* tnt_comm_last_error(void);
tnt_comm_status tnt_comm_rank(int32_t* rank);
tnt_comm_status tnt_comm_set_label(const char* label, const char* caller);
tnt_comm_status tnt_comm_combine(const void* const* arrays, int32_t num_arrays, void* out,
                                 uint64_t count, tnt_comm_dtype dtype, tnt_comm_op op);
tnt_comm_status tnt_group_run(int64_t group, const tnt_call* call, double timeout_s);
tnt_comm_status tnt_reducer_start(int64_t reducer, int64_t tensor, const void* data, double scale);
tnt_comm_status tnt_reducer_start_into(int64_t reducer, int64_t tensor, const void* data, void* out,
                                       double scale, void (*release)(void* owner), void* owner);
tnt_comm_status tnt_reducer_is_in_place(int64_t reducer, int64_t tensor, int32_t* is_in_place);
tnt_comm_status tnt_reducer_finish(int64_t reducer, int64_t tensor, void* out);
tnt_comm_status tnt_reducer_lend(int64_t reducer, int64_t tensor, const void** data, void** view);
void tnt_reducer_return(void* view);
tnt_comm_status tnt_reducer_start_on_device(int64_t reducer, int64_t tensor, const void* data,
                                            double scale, void* stream);
tnt_comm_status tnt_reducer_finish_on_device(int64_t reducer, int64_t tensor, void* out,
                                             void* stream);
tnt_comm_status tnt_gatherer_size(int64_t gatherer, int32_t* size);
tnt_comm_status tnt_gatherer_start(int64_t gatherer, const void* data, uint64_t num_bytes);
tnt_comm_status tnt_gatherer_wait(int64_t gatherer, uint64_t* num_bytes_of_rank,
                                  uint64_t* num_bytes_total);
tnt_comm_status tnt_gatherer_finish(int64_t gatherer, void* out);
void tnt_timeline_begin(const char* name);
void tnt_timeline_end(const char* name);

#ifdef __cplusplus
}
#endif
