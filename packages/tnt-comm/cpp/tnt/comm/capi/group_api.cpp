#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/capi/registry.hpp"
#include "tnt/comm/communicator/group.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

constexpr Group::Driver kCaller = Group::Driver::caller;

void barrier(Group& group, double timeout_s) {
  group.start_barrier(kCaller)->wait(timeout_s);
}

void allreduce(Group& group, const void* in, void* out, std::uint64_t count, DType dtype,
               ReduceOp op, double timeout_s) {
  const std::size_t num_bytes = checked_bytes(in, count, dtype, "in");
  checked_bytes(out, count, dtype, "out");
  if (in != out) require_apart(in, num_bytes, out, num_bytes);
  const auto request = group.allreduce_now(in, out, count, dtype, op);
  if (request) request->wait(timeout_s);
}

void broadcast(Group& group, void* data, std::uint64_t count, DType dtype, std::int32_t root,
               double timeout_s) {
  checked_bytes(data, count, dtype, "data");
  group.start_broadcast(data, data, count, dtype, root, kCaller)->wait(timeout_s);
}

std::vector<std::uint64_t> counts_of(const Gathered& gathered, DType dtype) {
  std::vector<std::uint64_t> counts;
  for (std::size_t member = 0; member < gathered.ends.size(); ++member) {
    counts.push_back((gathered.ends[member] - gathered.begin_of(member)) / size_of(dtype));
  }
  return counts;
}

void copy_blocks(const Gathered& gathered, const std::vector<std::uint64_t>& counts, void* out,
                 std::uint64_t capacity) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  if (total > capacity) {
    throw UsageError(text("The blocks of all ranks have ", total, " elements together, `out` has ",
                          "room for ", capacity, ". Call again with that much on all ranks."));
  }
  if (total > 0) std::memcpy(out, gathered.blocks.data(), gathered.blocks.size());
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
    barrier(*group_of(group), limit_s);
  });
}

tnt_comm_status tnt_group_allreduce(int64_t group, const void* in, void* out, uint64_t count,
                                    tnt_comm_dtype dtype, tnt_comm_op op, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    allreduce(*group_of(group), in, out, count, checked_dtype(dtype, "dtype"), checked_op(op),
              limit_s);
  });
}

tnt_comm_status tnt_group_broadcast(int64_t group, void* data, uint64_t count, tnt_comm_dtype dtype,
                                    int32_t root, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    broadcast(*group_of(group), data, count, checked_dtype(dtype, "dtype"), root, limit_s);
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
    const std::vector<std::uint64_t> all = counts_of(request->gathered(), type);
    if (counts != nullptr) std::copy(all.begin(), all.end(), counts);
    copy_blocks(request->gathered(), all, out, capacity);
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
  return guard([] { barrier(*Group::world(), 0); });
}

tnt_comm_status tnt_comm_allreduce(const void* in, void* out, uint64_t count, const char* dtype,
                                   const char* op) {
  return guard([&] {
    require_pointer(dtype, "dtype");
    require_pointer(op, "op");
    allreduce(*Group::world(), in, out, count, parse_dtype(dtype), parse_reduce_op(op), 0);
  });
}

tnt_comm_status tnt_comm_broadcast(void* data, uint64_t count, const char* dtype, int32_t root) {
  return guard([&] {
    require_pointer(dtype, "dtype");
    broadcast(*Group::world(), data, count, parse_dtype(dtype), root, 0);
  });
}

}  // extern "C"
