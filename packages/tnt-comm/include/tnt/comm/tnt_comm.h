/* C interface of tnt-comm: synchronous data-parallel reductions between the
 * ranks of a job. Plain C99; no C++ types cross it. A program needs nothing of
 * Python: packages/tnt-comm/examples/reduce_gradients.c is a complete one.
 *
 * Objects are named by integer handles. A handle that is unknown or closed
 * gives TNT_COMM_USAGE. All functions may be called from any thread.
 *
 * "Collective": every rank of the group (or job) calls the function, in the same
 * order relative to other collectives of that group, and with equal arguments
 * unless said otherwise; differences give TNT_COMM_MISMATCH on all of them.
 * "Local": never waits for another rank.
 *
 * Deadlock rule: functions called start never wait for another rank. Any
 * number of reducers and gatherers progress independently of each other on
 * one thread of the library. Functions that wait block only their caller, at
 * most for `timeout_s`, or where there is none, for the job's timeout
 * (environment variable TNT_TIMEOUT_S).
 *
 * Errors: every function that can fail returns a tnt_comm_status and leaves a
 * message for the calling thread. What results are written to is undefined
 * then. A collective that fails breaks its group: all members get the same error at
 * their next call, and it cannot be used again. TNT_COMM_USAGE does not, nor does
 * a creation that failed because a rank could not make its part.
 *
 * A forked child cannot use the objects of its parent: TNT_COMM_USAGE.
 */
#ifndef TNT_COMM_TNT_COMM_H
#define TNT_COMM_TNT_COMM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function changes or goes away; new functions do not change it. */
#define TNT_COMM_ABI_VERSION 2

#if defined(TNT_COMM_BUILDING)
#define TNT_COMM_API __attribute__((visibility("default")))
#else
#define TNT_COMM_API
#endif

typedef enum {
  TNT_COMM_OK = 0,
  TNT_COMM_USAGE = 1,     /* wrong argument or order of calls; nothing was sent */
  TNT_COMM_ERROR = 2,     /* the operating system or the transport failed */
  TNT_COMM_TIMEOUT = 3,   /* a deadline passed */
  TNT_COMM_PEER_LOST = 4, /* a rank that is needed is dead, finished or failed */
  TNT_COMM_MISMATCH = 5   /* the ranks do not do the same thing */
} tnt_comm_status;

/* Element types. TNT_COMM_FLOAT16 and TNT_COMM_BFLOAT16 are summed in float32 and
 * rounded once. TNT_COMM_BOOL is one byte, 0 or 1. */
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

/* How the elements of the ranks become one. SUM and PROD are not for bool; AND and
 * OR act on the bits of integers and bool, and are for these only. */
typedef enum {
  TNT_COMM_SUM = 0,
  TNT_COMM_PROD = 1,
  TNT_COMM_MIN = 2,
  TNT_COMM_MAX = 3,
  TNT_COMM_AND = 4,
  TNT_COMM_OR = 5
} tnt_comm_op;

/* The version the library was built with; compare with TNT_COMM_ABI_VERSION. */
TNT_COMM_API int32_t tnt_comm_abi_version(void);

/* Message of the last failing call on the calling thread. Valid until that
 * thread's next call. */
TNT_COMM_API const char* tnt_comm_last_error(void);

/* Status of that call; TNT_COMM_OK if none has failed on this thread. */
TNT_COMM_API tnt_comm_status tnt_comm_last_status(void);

/* Version of the library, such as "1.2.0". Never fails. */
TNT_COMM_API const char* tnt_comm_version(void);

/* Local: *out = the arrays of some neighbouring ranks, combined in the order in which
 * all ranks are, if their number is a branch of that tree: the order of as many ranks as
 * there are arrays, each of `count` elements. `out` may be one of them. For a process
 * that computes what several ranks would: what is combined of such branches has the same
 * bits as what is combined of all. For that 16-bit floats must be given as float32, since
 * a result is rounded. */
TNT_COMM_API tnt_comm_status tnt_comm_combine(const void* const* arrays, int32_t num_arrays,
                                              void* out, uint64_t count, tnt_comm_dtype dtype,
                                              tnt_comm_op op);

/* ---- The job -------------------------------------------------------------
 * Collective: every rank calls it. Reads the TNT_* variables; without them the
 * process is a world of one rank. Called by the collectives if needed. */
TNT_COMM_API tnt_comm_status tnt_comm_init(void);

/* Local. No collective can be started or completed afterwards. Runs at exit. */
TNT_COMM_API tnt_comm_status tnt_comm_finalize(void);

/* Local: *is_initialized = 1 between the two, else 0. */
TNT_COMM_API tnt_comm_status tnt_comm_is_initialized(int32_t* is_initialized);

/* Local: read from the TNT_* variables, before tnt_comm_init and after
 * tnt_comm_finalize as well. */
TNT_COMM_API tnt_comm_status tnt_comm_rank(int32_t* rank);
TNT_COMM_API tnt_comm_status tnt_comm_size(int32_t* size);

/* The same among the ranks on this host. */
TNT_COMM_API tnt_comm_status tnt_comm_local_rank(int32_t* local_rank);
TNT_COMM_API tnt_comm_status tnt_comm_local_size(int32_t* local_size);

/* Local. What the calls of this thread say about themselves from now on: collectives of
 * groups, and starts of gatherers. Copied; NULL or "": nothing, as at the beginning.
 * label: what the calls are for, such as "step: end". Ranks whose labels differ are in
 * different calls: TNT_COMM_MISMATCH on all of them.
 * caller: where they are made, such as "train.c:31". Messages show it. */
TNT_COMM_API tnt_comm_status tnt_comm_set_label(const char* label, const char* caller);

/* What this rank has counted since tnt_comm_init, which is called if needed. */
typedef struct {
  uint64_t num_operations; /* collectives, buckets and gathers that were begun */
  uint64_t num_bytes;      /* of this rank's contributions to them */
  uint64_t num_waits;      /* how often a thread had to wait for one */
  double communication_s;  /* at least one of them was under way */
  double exposed_s;        /* at least one thread waited for one */
} tnt_comm_counters;
TNT_COMM_API tnt_comm_status tnt_comm_get_counters(tnt_comm_counters* counters);

/* ---- Groups of ranks -------------------------------------------------------
 * Groups are independent of each other, of reducers and of gatherers. */

/* The group of all ranks. It need not be created and cannot be closed. */
#define TNT_GROUP_WORLD 0

/* Collective among `ranks`: num_ranks ranks of the job, ascending, the caller's
 * among them. Ranks that are in several groups of the same ranks create them in
 * the same order. Waits for at most the job's timeout. */
TNT_COMM_API tnt_comm_status tnt_group_create(const int32_t* ranks, int32_t num_ranks,
                                              int64_t* group);

/* Local. Reducers and gatherers of the group can still be used. */
TNT_COMM_API tnt_comm_status tnt_group_close(int64_t group);

/* Local: the caller's rank inside the group, and the number of members. */
TNT_COMM_API tnt_comm_status tnt_group_rank(int64_t group, int32_t* rank);
TNT_COMM_API tnt_comm_status tnt_group_size(int64_t group, int32_t* size);

/* Local: writes the ranks of the members in the job to `ranks`, one entry per member. */
TNT_COMM_API tnt_comm_status tnt_group_ranks(int64_t group, int32_t* ranks);

/* ---- Collectives of a group ------------------------------------------------ */
typedef enum {
  TNT_COMM_BARRIER = 0,        /* returns when all members have called it */
  TNT_COMM_ALLREDUCE = 1,      /* out[i]: all members' in[i], combined by the op */
  TNT_COMM_BROADCAST = 2,      /* out: the root's `in` */
  TNT_COMM_ALLGATHER = 3,      /* out: the blocks `in` of all members, in the order of their ranks;
                                  `count` may differ between members */
  TNT_COMM_REDUCE_SCATTER = 4, /* out: this member's part of all members' `in`, combined */
  TNT_COMM_ALLTOALL = 5,       /* out: this member's parts of all members' `in`, in the order of
                                  the ranks that they come from */
  TNT_COMM_GATHER = 6,         /* as allgather, to the root alone: the others' `out` is not used */
  TNT_COMM_SCATTER = 7         /* out: this member's part of the root's `in` */
} tnt_comm_kind;

/* What a rank says of a collective. What its kind does not use is ignored, and 0 if it is not
 * named in the initializer:
 *
 *     tnt_call sum = {.kind = TNT_COMM_ALLREDUCE, .in = x, .out = y, .count = 10,
 *                     .dtype = TNT_COMM_FLOAT32, .op = TNT_COMM_SUM};
 *
 * Parts: `in` has `count` rows, which are cut in the order of the ranks. With q = count / size and
 * r = count % size, the first r members get q + 1 rows and the others q. */
typedef struct {
  tnt_comm_kind kind;
  const void* in; /* arrays of the dtype; NULL if they have no elements. Where a root gives
                     something to the others, these need none */
  void* out;      /* must not overlap `in`, but may be `in` for an allreduce or a broadcast */
  uint64_t count; /* elements of `in`; rows, where they are cut into parts */
  uint64_t row_elements; /* elements of such a row */
  tnt_comm_dtype dtype;
  tnt_comm_op op;
  int32_t root;      /* a rank of the group */
  uint64_t capacity; /* of gathered blocks: the elements that `out` has room for */
  uint64_t* counts;  /* of gathered blocks: NULL, or one entry per member, which gets the elements
                        of its block */
} tnt_call;

/* Waits for the result. Sums are formed in the same order everywhere, so that they are equal on
 * all members and in all runs, to the bit. timeout_s: the longest wait, in seconds; 0 is the job's
 * timeout; others than these (negative, NaN) are TNT_COMM_USAGE.
 * If `capacity` is too little, nothing is written to `out`, the status is TNT_COMM_USAGE on this
 * member alone, `counts` is valid and the group can be used on. */
TNT_COMM_API tnt_comm_status tnt_group_run(int64_t group, const tnt_call* call, double timeout_s);

/* The same without the wait, in the same order relative to other calls. Gives a request, a handle
 * that is closed at the end. Until it is done, what is written must not be used, and what is read
 * not be changed. Gathered blocks are for tnt_request_wait_blocks, which is told where to. */
TNT_COMM_API tnt_comm_status tnt_group_start(int64_t group, const tnt_call* call, int64_t* request);

/* Local: *is_done = 1 if tnt_request_wait would return at once, also with an error. */
TNT_COMM_API tnt_comm_status tnt_request_test(int64_t request, int32_t* is_done);

/* Waits until it is done, and returns what tnt_group_run would. May be called again. */
TNT_COMM_API tnt_comm_status tnt_request_wait(int64_t request, double timeout_s);

/* The same of an allgather or gather, whose blocks it writes as tnt_group_run does. */
TNT_COMM_API tnt_comm_status tnt_request_wait_blocks(int64_t request, void* out, uint64_t capacity,
                                                     uint64_t* counts, double timeout_s);

/* Local. A collective that is not done goes on, and has its arrays until a later one of
 * the group is done. */
TNT_COMM_API tnt_comm_status tnt_request_close(int64_t request);

/* ---- Arrays for allreduces without copies ----------------------------------
 * An allreduce with `in` and `out` both in such an array works in the memory of
 * all members directly. Where they cannot reach it (several hosts), it is plain memory. */

/* Collective among the group. *data: num_bytes bytes of arbitrary values, aligned to 64.
 * Waits for at most the job's timeout. */
TNT_COMM_API tnt_comm_status tnt_array_create(int64_t group, uint64_t num_bytes, void** data,
                                              int64_t* array);

/* Local: frees it. No collective may be using it. */
TNT_COMM_API tnt_comm_status tnt_array_close(int64_t array);

/* ---- Reducers: sums of the same tensors, step after step ------------------
 * A step of a tensor is one start and then one finish, or one lend that gives
 * something. Tensors are started and finished in any order, from any threads, and
 * in another order on each rank. */

typedef struct {
  const char* name; /* for messages, copied; NULL: its number */
  tnt_comm_dtype dtype;
  uint64_t count; /* elements, may be 0 */
} tnt_tensor_spec;

/* Collective among the group. Waits for at most the job's timeout.
 * tensors: those that are summed in every step, numbered from 0; copied.
 * threshold_bytes: tensors of one dtype are summed together, from the last to the
 * first, until they have this many bytes; 0 sums each by itself.
 * wire_dtype: as what float32 tensors travel between ranks: TNT_COMM_FLOAT16 and
 * TNT_COMM_BFLOAT16 halve what is sent, TNT_COMM_FLOAT32 sends what is there.
 * name: for messages, copied; NULL: "gradients". */
TNT_COMM_API tnt_comm_status tnt_reducer_create(int64_t group, const tnt_tensor_spec* tensors,
                                                uint64_t num_tensors, uint64_t threshold_bytes,
                                                tnt_comm_dtype wire_dtype, const char* name,
                                                int64_t* reducer);

/* Local. Its memory is freed when no operation and no view needs it any more. */
TNT_COMM_API tnt_comm_status tnt_reducer_close(int64_t reducer);

/* Local: the longest wait of each later finish or lend, in seconds; 0: the job's
 * timeout, as at the beginning. */
TNT_COMM_API tnt_comm_status tnt_reducer_set_timeout(int64_t reducer, double timeout_s);

/* Local: tensors, buckets of tensors that are summed together, bytes of all tensors,
 * and bytes of one. */
TNT_COMM_API tnt_comm_status tnt_reducer_num_tensors(int64_t reducer, uint64_t* num_tensors);
TNT_COMM_API tnt_comm_status tnt_reducer_num_buckets(int64_t reducer, uint64_t* num_buckets);
TNT_COMM_API tnt_comm_status tnt_reducer_num_bytes(int64_t reducer, uint64_t* num_bytes);
TNT_COMM_API tnt_comm_status tnt_reducer_tensor_bytes(int64_t reducer, int64_t tensor,
                                                      uint64_t* num_bytes);

/* Copies scale * data. Never waits. scale 0 writes zeros whatever data holds. */
TNT_COMM_API tnt_comm_status tnt_reducer_start(int64_t reducer, int64_t tensor, const void* data,
                                               double scale);

/* The same for a sum that is to be in `out` (which may be `data`) after the
 * finish. Both are the reducer's until release(owner) is called. That is once, by
 * any thread: at the finish; after an error at once, or when the reducer goes.
 * release may be NULL. */
TNT_COMM_API tnt_comm_status tnt_reducer_start_into(int64_t reducer, int64_t tensor,
                                                    const void* data, void* out, double scale,
                                                    void (*release)(void* owner), void* owner);

/* *is_in_place = 1 if tnt_reducer_start_into does without a copy, else 0. Always
 * the same for a tensor of a reducer. */
TNT_COMM_API tnt_comm_status tnt_reducer_is_in_place(int64_t reducer, int64_t tensor,
                                                     int32_t* is_in_place);

/* Waits, then writes the sum over all ranks; out may be NULL after
 * tnt_reducer_start_into. */
TNT_COMM_API tnt_comm_status tnt_reducer_finish(int64_t reducer, int64_t tensor, void* out);

/* Like finish, without the copy: *data is the sum, 64-byte aligned, and stays
 * as it is until tnt_reducer_return(*view). The tensor counts as finished, so
 * its next step can be started at once. If *data is NULL (status TNT_COMM_OK),
 * nothing can be lent now, and the tensor is to be finished as usual: small
 * tensors are not lent, nor are those of a bucket while a view of one of its
 * earlier steps is out. */
TNT_COMM_API tnt_comm_status tnt_reducer_lend(int64_t reducer, int64_t tensor, const void** data,
                                              void** view);

/* Any thread, once per view, also after the reducer was closed. Never waits. */
TNT_COMM_API void tnt_reducer_return(void* view);

/* ---- Reducers of tensors on GPUs ------------------------------------------
 * The buckets are in the memory of GPUs; what sums them follows TNT_GPU_SUMS. All functions above
 * work on such a reducer, too, with memory of the host, but take longer.
 * stream: the CUstream (cudaStream_t) that the tensor is computed or read in. NULL is no default
 * stream: it stands for all streams of the primary context, which needs a driver of CUDA 12.5. */

/* As tnt_reducer_create, on all members. device: which of the GPUs that this process sees; -1 if
 * it has none that can be used, although it or another member computes on one. TNT_COMM_ERROR if
 * the GPU cannot be used. No sum of such a reducer is lent. */
TNT_COMM_API tnt_comm_status tnt_reducer_create_on_device(
    int64_t group, const tnt_tensor_spec* tensors, uint64_t num_tensors, uint64_t threshold_bytes,
    tnt_comm_dtype wire_dtype, const char* name, int32_t device, int64_t* reducer);

/* Local: *is_on_device = 1 if the reducer's buckets are on a GPU of this rank, else 0. */
TNT_COMM_API tnt_comm_status tnt_reducer_is_on_device(int64_t reducer, int32_t* is_on_device);

/* As tnt_reducer_start, of data on the GPU, after what is in the stream: data is read in its
 * order. Never waits, neither for the GPU. */
TNT_COMM_API tnt_comm_status tnt_reducer_start_on_device(int64_t reducer, int64_t tensor,
                                                         const void* data, double scale,
                                                         void* stream);

/* As tnt_reducer_finish. Waits for the other ranks, not for the GPU: the sum is in `out`, on the
 * GPU, for what comes into the stream later. */
TNT_COMM_API tnt_comm_status tnt_reducer_finish_on_device(int64_t reducer, int64_t tensor,
                                                          void* out, void* stream);

/* ---- Gatherers: blocks of bytes of all ranks, step after step -------------
 * A step is one start, any number of waits, and one finish. Blocks may have another
 * length on each rank and in each step. */

/* Collective among the group. name: for messages, copied. Waits for at most the job's
 * timeout. */
TNT_COMM_API tnt_comm_status tnt_gatherer_create(int64_t group, const char* name,
                                                 int64_t* gatherer);

/* Local. */
TNT_COMM_API tnt_comm_status tnt_gatherer_close(int64_t gatherer);

/* Local: the longest of each later wait, as tnt_reducer_set_timeout. */
TNT_COMM_API tnt_comm_status tnt_gatherer_set_timeout(int64_t gatherer, double timeout_s);

/* Local: number of ranks, which is that of the blocks. */
TNT_COMM_API tnt_comm_status tnt_gatherer_size(int64_t gatherer, int32_t* size);

/* Copies data. Never waits. */
TNT_COMM_API tnt_comm_status tnt_gatherer_start(int64_t gatherer, const void* data,
                                                uint64_t num_bytes);

/* Waits. num_bytes_of_rank: one entry per rank of the group. Either may be NULL. */
TNT_COMM_API tnt_comm_status tnt_gatherer_wait(int64_t gatherer, uint64_t* num_bytes_of_rank,
                                               uint64_t* num_bytes_total);

/* Waits, writes the blocks in rank order back to back, and ends the step. */
TNT_COMM_API tnt_comm_status tnt_gatherer_finish(int64_t gatherer, void* out);

/* ---- Timeline (environment variable TNT_TIMELINE) --------------------------
 * Slices and marks of the program itself, on the row of the calling thread.
 * They do nothing without TNT_TIMELINE, before tnt_comm_init and after
 * tnt_comm_finalize. Slices of a thread are nested; name is copied. Never wait.
 * There is room for some ten thousand different names. */
TNT_COMM_API void tnt_timeline_begin(const char* name);
TNT_COMM_API void tnt_timeline_end(const char* name);
TNT_COMM_API void tnt_timeline_instant(const char* name);

#ifdef __cplusplus
}
#endif

#endif /* TNT_COMM_TNT_COMM_H */
