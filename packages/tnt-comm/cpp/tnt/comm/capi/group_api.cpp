#include <cstring>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/capi/registry.hpp"
#include "tnt/comm/communicator/group.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

constexpr Group::Driver kCaller = Group::Driver::caller;

// The elements of each block, if `counts` is not null, and the blocks if there is room for them.
void copy_out(const Gathered& gathered, DType dtype, std::uint64_t* counts, void* out,
              std::uint64_t capacity) {
  const std::size_t size = size_of(dtype);
  for (std::size_t member = 0; counts != nullptr && member < gathered.ends.size(); ++member) {
    counts[member] = (gathered.ends[member] - gathered.begin_of(member)) / size;
  }
  const std::size_t total = gathered.blocks.size() / size;
  if (total > capacity) {
    throw UsageError(text("The blocks of all ranks have ", total, " elements together, `out` has ",
                          "room for ", capacity, ". Call again with that much on all ranks."));
  }
  if (total > 0) std::memcpy(out, gathered.blocks.data(), gathered.blocks.size());
}

// For the short forms, with a dtype by its name.
template <typename Function>
tnt_comm_status with_dtype(const char* dtype, Function&& function) noexcept {
  tnt_comm_status status = TNT_COMM_OK;
  const tnt_comm_status refused = guard([&] {
    require_pointer(dtype, "dtype");
    status = function(static_cast<tnt_comm_dtype>(parse_dtype(dtype)));
  });
  return refused != TNT_COMM_OK ? refused : status;
}

}  // namespace

extern "C" {

tnt_comm_status tnt_group_create(const int32_t* ranks, int32_t num_ranks, int64_t* group) {
  return guard([&] {
    require_pointer(ranks, "ranks");
    require_pointer(group, "group");
    if (num_ranks < 1) {
      throw UsageError(text("`num_ranks` must be positive. Received: num_ranks=", num_ranks, "."));
    }
    *group = groups().add(Group::create(std::vector<int>(ranks, ranks + num_ranks)));
  });
}

tnt_comm_status tnt_group_close(int64_t group) {
  return guard([&] { groups().remove(group); });
}

tnt_comm_status tnt_group_rank(int64_t group, int32_t* rank) {
  return give(rank, "rank", [&] { return group_of(group)->rank(); });
}

tnt_comm_status tnt_group_size(int64_t group, int32_t* size) {
  return give(size, "size", [&] { return group_of(group)->size(); });
}

tnt_comm_status tnt_group_barrier(int64_t group, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    group_of(group)->start_barrier(kCaller)->wait(limit_s);
  });
}

tnt_comm_status tnt_group_allreduce(int64_t group, const void* in, void* out, uint64_t count,
                                    tnt_comm_dtype dtype, tnt_comm_op op, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const auto members = group_of(group);
    const DType type = checked_dtype(dtype, "dtype");
    const ReduceOp how = checked_op(op);
    const std::size_t num_bytes = checked_bytes(in, count, type, "in");
    checked_bytes(out, count, type, "out");
    if (in != out) require_apart(in, num_bytes, out, num_bytes);
    const auto request = members->allreduce_now(in, out, count, type, how);
    if (request) request->wait(limit_s);
  });
}

tnt_comm_status tnt_group_broadcast(int64_t group, void* data, uint64_t count, tnt_comm_dtype dtype,
                                    int32_t root, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const auto members = group_of(group);
    const DType type = checked_dtype(dtype, "dtype");
    checked_bytes(data, count, type, "data");
    members->start_broadcast(data, data, count, type, root, kCaller)->wait(limit_s);
  });
}

tnt_comm_status tnt_group_allgather(int64_t group, const void* in, uint64_t count,
                                    tnt_comm_dtype dtype, void* out, uint64_t capacity,
                                    uint64_t* counts, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const DType type = checked_dtype(dtype, "dtype");
    require_apart(in, checked_bytes(in, count, type, "in"), out,
                  checked_bytes(out, capacity, type, "out"));
    const auto request = group_of(group)->start_allgather(in, count, type, 0, kCaller);
    request->wait(limit_s);
    copy_out(request->gathered(), type, counts, out, capacity);
  });
}

tnt_comm_status tnt_group_reduce_scatter(int64_t group, const void* in, void* out,
                                         uint64_t num_rows, uint64_t row_elements,
                                         tnt_comm_dtype dtype, tnt_comm_op op, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const DType type = checked_dtype(dtype, "dtype");
    const auto members = group_of(group);
    const std::size_t count = bytes_in_memory(num_rows, row_elements, "`in`");
    const std::size_t num_bytes = checked_bytes(in, count, type, "in");
    const Range rows = part_of(num_rows, static_cast<std::size_t>(members->size()),
                               static_cast<std::size_t>(members->rank()));
    require_apart(in, num_bytes, out, checked_bytes(out, rows.size() * row_elements, type, "out"));
    members->start_reduce_scatter(in, out, {num_rows, row_elements}, type, checked_op(op), kCaller)
        ->wait(limit_s);
  });
}

tnt_comm_status tnt_comm_barrier(void) {
  return tnt_group_barrier(TNT_GROUP_WORLD, 0);
}

tnt_comm_status tnt_comm_allreduce(const void* in, void* out, uint64_t count, const char* dtype,
                                   const char* op) {
  return with_dtype(dtype, [&](tnt_comm_dtype type) {
    require_pointer(op, "op");
    return tnt_group_allreduce(TNT_GROUP_WORLD, in, out, count, type,
                               static_cast<tnt_comm_op>(parse_reduce_op(op)), 0);
  });
}

tnt_comm_status tnt_comm_broadcast(void* data, uint64_t count, const char* dtype, int32_t root) {
  return with_dtype(dtype, [&](tnt_comm_dtype type) {
    return tnt_group_broadcast(TNT_GROUP_WORLD, data, count, type, root, 0);
  });
}

}  // extern "C"
