#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/capi/registry.hpp"
#include "tnt/comm/capi/thread_label.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/shared_array.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

using Driver = Group::Driver;

// A collective that has been started, and the dtype of what it gathers, if it does.
struct Started {
  std::shared_ptr<Request> request;  // null if it is complete already
  std::optional<DType> gathers = {};
};

// Never destroyed, as the other registries.

Registry<Started>& requests() {
  static auto* registry = new Registry<Started>("request");
  return *registry;
}

Registry<SharedArray>& arrays() {
  static auto* registry = new Registry<SharedArray>("array");
  return *registry;
}

// The two forms in which C has a collective, of a function that checks its arguments and starts it.

template <typename Start>
tnt_comm_status run(double timeout_s, Start&& start) noexcept {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const Started started = start(Driver::caller);
    if (started.request) started.request->wait(limit_s);
  });
}

template <typename Start>
tnt_comm_status hand_out(int64_t* request, Start&& start) noexcept {
  return give(request, "request",
              [&] { return requests().add(std::make_shared<Started>(start(Driver::engine))); });
}

auto barrier(int64_t group) {
  return [=](Driver driver) -> Started {
    return {group_of(group)->start_barrier(driver, call_label())};
  };
}

auto allreduce(int64_t group, const void* in, void* out, uint64_t count, tnt_comm_dtype dtype,
               tnt_comm_op op) {
  return [=](Driver driver) -> Started {
    const auto members = group_of(group);
    const DType type = checked_dtype(dtype, "dtype");
    const ReduceOp how = checked_op(op);
    const std::size_t num_bytes = checked_bytes(in, count, type, "in");
    checked_bytes(out, count, type, "out");
    if (in != out) require_apart(in, num_bytes, out, num_bytes);
    if (driver == Driver::caller)
      return {members->allreduce_now(in, out, count, type, how, call_label())};
    return {members->start_allreduce(in, out, count, type, how, driver, call_label())};
  };
}

auto broadcast(int64_t group, void* data, uint64_t count, tnt_comm_dtype dtype, int32_t root) {
  return [=](Driver driver) -> Started {
    const auto members = group_of(group);
    const DType type = checked_dtype(dtype, "dtype");
    checked_bytes(data, count, type, "data");
    return {members->start_broadcast(data, data, count, type, root, driver, call_label())};
  };
}

// Allgather, or gather if there is a root.
auto gather(int64_t group, const void* in, uint64_t count, tnt_comm_dtype dtype,
            std::optional<int32_t> root) {
  return [=](Driver driver) -> Started {
    const auto members = group_of(group);
    const DType type = checked_dtype(dtype, "dtype");
    checked_bytes(in, count, type, "in");
    return {root ? members->start_gather(in, count, type, 0, *root, driver, call_label())
                 : members->start_allgather(in, count, type, 0, driver, call_label()),
            type};
  };
}

// The elements of each block, if `counts` is not null, and the blocks if there is room for them.
void copy_out(const Started& started, void* out, std::uint64_t capacity, std::uint64_t* counts) {
  const Gathered& gathered = started.request->gathered();
  const std::size_t size = size_of(*started.gathers);
  for (std::size_t member = 0; counts != nullptr && member < gathered.ends.size(); ++member) {
    counts[member] = gathered.size_of(member) / size;
  }
  const std::size_t total = gathered.blocks.size() / size;
  if (total > capacity) {
    throw UsageError(text("The blocks of all ranks have ", total, " elements together, `out` has ",
                          "room for ", capacity, ". Call again with that much on all ranks."));
  }
  if (total == 0) return;
  require_pointer(out, "out");
  std::memcpy(out, gathered.blocks.data(), gathered.blocks.size());
}

// The blocking form of allgather and gather.
tnt_comm_status gather_now(int64_t group, const void* in, uint64_t count, tnt_comm_dtype dtype,
                           std::optional<int32_t> root, void* out, uint64_t capacity,
                           uint64_t* counts, double timeout_s) noexcept {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const DType type = checked_dtype(dtype, "dtype");
    if (!root || *root == group_of(group)->rank()) {
      require_apart(in, checked_bytes(in, count, type, "in"), out,
                    checked_bytes(out, capacity, type, "out"));
    }
    const Started started = gather(group, in, count, dtype, root)(Driver::caller);
    started.request->wait(limit_s);
    copy_out(started, out, capacity, counts);
  });
}

// The arrays of a collective that cuts `in` along its rows, on members that have one. `out` is for
// so many of this member's parts.
void require_parts(const Group& members, bool has_array, const void* in, const void* out,
                   const Group::Rows& rows, DType type, int num_parts) {
  const std::size_t count = bytes_in_memory(rows.count, rows.num_elements, "`in`");
  const Range own = part_of(rows.count, static_cast<std::size_t>(members.size()),
                            static_cast<std::size_t>(members.rank()));
  const std::size_t out_count =
      own.size() * rows.num_elements * static_cast<std::size_t>(num_parts);
  require_apart(in, has_array ? checked_bytes(in, count, type, "in") : 0, out,
                checked_bytes(out, out_count, type, "out"));
}

auto reduce_scatter(int64_t group, const void* in, void* out, const Group::Rows& rows,
                    tnt_comm_dtype dtype, tnt_comm_op op) {
  return [=](Driver driver) -> Started {
    const auto members = group_of(group);
    const DType type = checked_dtype(dtype, "dtype");
    require_parts(*members, true, in, out, rows, type, 1);
    return {
        members->start_reduce_scatter(in, out, rows, type, checked_op(op), driver, call_label())};
  };
}

auto alltoall(int64_t group, const void* in, void* out, const Group::Rows& rows,
              tnt_comm_dtype dtype) {
  return [=](Driver driver) -> Started {
    const auto members = group_of(group);
    const DType type = checked_dtype(dtype, "dtype");
    require_parts(*members, true, in, out, rows, type, members->size());
    return {members->start_alltoall(in, out, rows, type, driver, call_label())};
  };
}

auto scatter(int64_t group, const void* in, void* out, const Group::Rows& rows,
             tnt_comm_dtype dtype, int32_t root) {
  return [=](Driver driver) -> Started {
    const auto members = group_of(group);
    const DType type = checked_dtype(dtype, "dtype");
    require_parts(*members, root == members->rank(), in, out, rows, type, 1);
    return {members->start_scatter(in, out, rows, type, root, driver, call_label())};
  };
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

tnt_comm_status tnt_group_ranks(int64_t group, int32_t* ranks) {
  return guard([&] {
    require_pointer(ranks, "ranks");
    std::ranges::copy(group_of(group)->ranks(), ranks);
  });
}

tnt_comm_status tnt_group_barrier(int64_t group, double timeout_s) {
  return run(timeout_s, barrier(group));
}

tnt_comm_status tnt_group_start_barrier(int64_t group, int64_t* request) {
  return hand_out(request, barrier(group));
}

tnt_comm_status tnt_group_allreduce(int64_t group, const void* in, void* out, uint64_t count,
                                    tnt_comm_dtype dtype, tnt_comm_op op, double timeout_s) {
  return run(timeout_s, allreduce(group, in, out, count, dtype, op));
}

tnt_comm_status tnt_group_start_allreduce(int64_t group, const void* in, void* out, uint64_t count,
                                          tnt_comm_dtype dtype, tnt_comm_op op, int64_t* request) {
  return hand_out(request, allreduce(group, in, out, count, dtype, op));
}

tnt_comm_status tnt_group_broadcast(int64_t group, void* data, uint64_t count, tnt_comm_dtype dtype,
                                    int32_t root, double timeout_s) {
  return run(timeout_s, broadcast(group, data, count, dtype, root));
}

tnt_comm_status tnt_group_start_broadcast(int64_t group, void* data, uint64_t count,
                                          tnt_comm_dtype dtype, int32_t root, int64_t* request) {
  return hand_out(request, broadcast(group, data, count, dtype, root));
}

tnt_comm_status tnt_group_allgather(int64_t group, const void* in, uint64_t count,
                                    tnt_comm_dtype dtype, void* out, uint64_t capacity,
                                    uint64_t* counts, double timeout_s) {
  return gather_now(group, in, count, dtype, {}, out, capacity, counts, timeout_s);
}

tnt_comm_status tnt_group_start_allgather(int64_t group, const void* in, uint64_t count,
                                          tnt_comm_dtype dtype, int64_t* request) {
  return hand_out(request, gather(group, in, count, dtype, {}));
}

tnt_comm_status tnt_group_gather(int64_t group, const void* in, uint64_t count,
                                 tnt_comm_dtype dtype, int32_t root, void* out, uint64_t capacity,
                                 uint64_t* counts, double timeout_s) {
  return gather_now(group, in, count, dtype, root, out, capacity, counts, timeout_s);
}

tnt_comm_status tnt_group_start_gather(int64_t group, const void* in, uint64_t count,
                                       tnt_comm_dtype dtype, int32_t root, int64_t* request) {
  return hand_out(request, gather(group, in, count, dtype, root));
}

tnt_comm_status tnt_group_reduce_scatter(int64_t group, const void* in, void* out,
                                         uint64_t num_rows, uint64_t row_elements,
                                         tnt_comm_dtype dtype, tnt_comm_op op, double timeout_s) {
  return run(timeout_s, reduce_scatter(group, in, out, {num_rows, row_elements}, dtype, op));
}

tnt_comm_status tnt_group_start_reduce_scatter(int64_t group, const void* in, void* out,
                                               uint64_t num_rows, uint64_t row_elements,
                                               tnt_comm_dtype dtype, tnt_comm_op op,
                                               int64_t* request) {
  return hand_out(request, reduce_scatter(group, in, out, {num_rows, row_elements}, dtype, op));
}

tnt_comm_status tnt_group_alltoall(int64_t group, const void* in, void* out, uint64_t num_rows,
                                   uint64_t row_elements, tnt_comm_dtype dtype, double timeout_s) {
  return run(timeout_s, alltoall(group, in, out, {num_rows, row_elements}, dtype));
}

tnt_comm_status tnt_group_start_alltoall(int64_t group, const void* in, void* out,
                                         uint64_t num_rows, uint64_t row_elements,
                                         tnt_comm_dtype dtype, int64_t* request) {
  return hand_out(request, alltoall(group, in, out, {num_rows, row_elements}, dtype));
}

tnt_comm_status tnt_group_scatter(int64_t group, const void* in, void* out, uint64_t num_rows,
                                  uint64_t row_elements, tnt_comm_dtype dtype, int32_t root,
                                  double timeout_s) {
  return run(timeout_s, scatter(group, in, out, {num_rows, row_elements}, dtype, root));
}

tnt_comm_status tnt_group_start_scatter(int64_t group, const void* in, void* out, uint64_t num_rows,
                                        uint64_t row_elements, tnt_comm_dtype dtype, int32_t root,
                                        int64_t* request) {
  return hand_out(request, scatter(group, in, out, {num_rows, row_elements}, dtype, root));
}

tnt_comm_status tnt_request_test(int64_t request, int32_t* is_done) {
  return give(is_done, "is_done", [&] { return requests().find(request)->request->is_done(); });
}

tnt_comm_status tnt_request_wait(int64_t request, double timeout_s) {
  return run(timeout_s, [&](Driver) { return *requests().find(request); });
}

tnt_comm_status tnt_request_wait_blocks(int64_t request, void* out, uint64_t capacity,
                                        uint64_t* counts, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const auto started = requests().find(request);
    if (!started->gathers) {
      throw UsageError(text("Request ", request, " is no allgather or gather, and has no blocks."));
    }
    started->request->wait(limit_s);
    copy_out(*started, out, capacity, counts);
  });
}

tnt_comm_status tnt_request_close(int64_t request) {
  return guard([&] { requests().remove(request); });
}

tnt_comm_status tnt_array_create(int64_t group, uint64_t num_bytes, void** data, int64_t* array) {
  return guard([&] {
    require_pointer(data, "data");
    require_pointer(array, "array");
    bytes_in_memory(num_bytes, 1, "An array");
    auto memory = std::make_shared<SharedArray>(*group_of(group), num_bytes);
    *data = memory->data();
    *array = arrays().add(std::move(memory));
  });
}

tnt_comm_status tnt_array_close(int64_t array) {
  return guard([&] { arrays().remove(array); });
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
