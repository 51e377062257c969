#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tnt/comm/base/dtype.hpp"
#include "tnt/comm/tnt_comm.h"

namespace tnt::comm {

class Group;

// What C functions are given, checked: a UsageError that names the argument instead
// of a crash.

DType checked_dtype(tnt_comm_dtype dtype, const char* argument);
ReduceOp checked_op(tnt_comm_op op);

/// Seconds; 0 is the job's timeout.
double checked_timeout(double timeout_s);

/// A place for a result, or an array that has elements.
void require_pointer(const void* pointer, const char* argument);

/// Bytes of an array, which must be there if it has any.
std::size_t checked_bytes(const void* array, std::uint64_t count, DType dtype,
                          const char* argument);

/// The arrays must not overlap.
void require_apart(const void* in, std::size_t in_bytes, const void* out, std::size_t out_bytes);

/// The group of a handle.
std::shared_ptr<Group> group_of(std::int64_t handle);

}  // namespace tnt::comm
