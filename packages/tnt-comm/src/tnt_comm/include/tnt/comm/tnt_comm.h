/* C interface of tnt-comm: synchronous data-parallel reductions between the
 * ranks of a job. Plain C99; no C++ types cross it.
 *
 * Objects are named by integer handles. A handle that is unknown or closed
 * gives TNT_COMM_USAGE. All functions may be called from any thread.
 *
 * Deadlock rule: functions called start never wait for another rank. Any
 * number of reducers and gatherers progress independently of each other on
 * one thread of the library. Functions that wait block only their caller, at
 * most for the job's timeout (environment variable TNT_TIMEOUT_S).
 */
#ifndef TNT_COMM_TNT_COMM_H
#define TNT_COMM_TNT_COMM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function changes or goes away; new functions do not change it. */
#define TNT_COMM_ABI_VERSION 1

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

/* The version the library was built with; compare with TNT_COMM_ABI_VERSION. */
TNT_COMM_API int32_t tnt_comm_abi_version(void);

/* Message of the last failing call on the calling thread. Valid until that
 * thread's next call. */
TNT_COMM_API const char* tnt_comm_last_error(void);

/* ---- The job -------------------------------------------------------------
 * Collective: every rank calls it. Reads the TNT_* variables; without them the
 * process is a world of one rank. Called by the collectives if needed. */
TNT_COMM_API tnt_comm_status tnt_comm_init(void);

/* Local. No collective can be started or completed afterwards. Runs at exit. */
TNT_COMM_API tnt_comm_status tnt_comm_finalize(void);

/* Local: read from the TNT_* variables, before tnt_comm_init and after
 * tnt_comm_finalize as well. */
TNT_COMM_API tnt_comm_status tnt_comm_rank(int32_t* rank);
TNT_COMM_API tnt_comm_status tnt_comm_size(int32_t* size);

/* ---- Blocking collectives of all ranks -----------------------------------
 * dtype: float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool
 * op: sum prod min max and or */
TNT_COMM_API tnt_comm_status tnt_comm_barrier(void);

/* out may be in. */
TNT_COMM_API tnt_comm_status tnt_comm_allreduce(const void* in, void* out, uint64_t count,
                                                const char* dtype, const char* op);

TNT_COMM_API tnt_comm_status tnt_comm_broadcast(void* data, uint64_t count, const char* dtype,
                                                int32_t root);

/* ---- Reducers: sums of the same tensors, step after step ------------------
 * A step of a tensor is one start and then one finish, or one lend that gives
 * something. */

/* Copies scale * data. Never waits. scale 0 writes zeros whatever data holds. */
TNT_COMM_API tnt_comm_status tnt_reducer_start(int64_t reducer, int64_t tensor, const void* data,
                                               double scale);

/* The same for a sum that is to be in `out` (which may be `data`) after the
 * finish. Both are the reducer's until release(owner) is called. That is once, by
 * any thread: at the finish; after an error at once, or when the reducer goes. */
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
 * as it is until tnt_reducer_return(*lease). The tensor counts as finished, so
 * its next step can be started at once. If *data is NULL (status TNT_COMM_OK),
 * nothing can be lent now, and the tensor is to be finished as usual: small
 * tensors are not lent, nor are those of a bucket while a lease of one of its
 * earlier steps is out. */
TNT_COMM_API tnt_comm_status tnt_reducer_lend(int64_t reducer, int64_t tensor, const void** data,
                                              void** lease);

/* Any thread, once per lease, also after the reducer was closed. Never waits. */
TNT_COMM_API void tnt_reducer_return(void* lease);

/* ---- Gatherers: blocks of bytes of all ranks, step after step ------------- */

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
