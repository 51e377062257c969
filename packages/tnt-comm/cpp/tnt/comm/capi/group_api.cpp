#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/group_object.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

// A collective that has been started, and the dtype of what it gathers, if it does.
struct Started {
  Started(std::shared_ptr<Request> made, const Call& call) : request(std::move(made)) {
    if (traits_of(call.kind).result == ResultLayout::blocks) gathers = call.dtype;
  }

  std::shared_ptr<Request> request;  // null if it is complete already
  std::optional<DType> gathers;
};

Registry<Started>& requests() {
  return registry_of<Started>("request");
}
Registry<SharedArray>& arrays() {
  return registry_of<SharedArray>("array");
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
    throw UsageError("The blocks of all ranks have ", total, " elements together, `out` has ",
                     "room for ", capacity, ". Call again with that much on all ranks.");
  }
  if (total == 0) return;
  require_pointer(out, "out");
  std::memcpy(out, gathered.blocks.data(), gathered.blocks.size());
}

// Of a collective that cuts `in` along its rows. `out` is for this member's part, or one of each.
void require_parts(const Group& members, const Call& call, bool has_array) {
  const std::size_t count = bytes_in_memory(call.count, call.row_elements, "`in`");
  const auto parts = members.parts_of(call.count, call.row_elements);
  const Range& own = at(parts, members.rank());
  const bool has_many = traits_of(call.kind).result == ResultLayout::parts;
  const std::size_t num_parts = has_many ? parts.size() : 1;
  require_apart(call.in, has_array ? checked_bytes(call.in, count, call.dtype, "in") : 0, call.out,
                checked_bytes(call.out, own.size() * num_parts, call.dtype, "out"));
}

void require_arrays(const Group& members, const Call& call, const tnt_call& given, bool is_run) {
  const CollectiveTraits& traits = traits_of(call.kind);
  const bool is_root = !traits.has_root || call.root == members.rank();
  switch (traits.result) {
    case ResultLayout::none:
      return;
    case ResultLayout::same: {
      const std::size_t num_bytes = checked_bytes(call.out, call.count, call.dtype, "out");
      if (is_root) checked_bytes(call.in, call.count, call.dtype, "in");
      if (is_root && call.in != call.out) require_apart(call.in, num_bytes, call.out, num_bytes);
      return;
    }
    case ResultLayout::part:
    case ResultLayout::parts:
      return require_parts(members, call, is_root);
    case ResultLayout::blocks: {
      const std::size_t num_bytes = checked_bytes(call.in, call.count, call.dtype, "in");
      if (!is_root || !is_run) return;
      require_apart(call.in, num_bytes, given.out,
                    checked_bytes(given.out, given.capacity, call.dtype, "out"));
    }
  }
}

// What C says of a collective, checked. `is_run`: it also says where gathered blocks are to be.
Call checked_call(const Group& members, const tnt_call* given, bool is_run) {
  require_pointer(given, "call");
  Call call{.kind = checked_kind(given->kind)};
  const CollectiveTraits& traits = traits_of(call.kind);
  if (!traits.has_data) return call;
  call.in = given->in;
  call.out = given->out;
  call.count = given->count;
  call.row_elements = given->row_elements;
  call.dtype = checked_dtype(given->dtype, "dtype");
  if (traits.reduces) call.op = checked_op(given->op);
  call.root = given->root;
  require_arrays(members, call, *given, is_run);
  return call;
}

}  // namespace

extern "C" {

tnt_comm_status tnt_group_create(const int32_t* ranks, int32_t num_ranks, int64_t* group) {
  return guard([&] {
    require_pointer(ranks, "ranks");
    require_pointer(group, "group");
    if (num_ranks < 1) {
      throw UsageError("`num_ranks` must be positive. Received: num_ranks=", num_ranks, ".");
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

tnt_comm_status tnt_group_run(int64_t group, const tnt_call* call, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const auto members = group_of(group);
    const Call checked = checked_call(*members, call, true);
    const Started started(members->run(checked, call_label()), checked);
    if (started.request) started.request->wait(limit_s);
    if (started.gathers) copy_out(started, call->out, call->capacity, call->counts);
  });
}

tnt_comm_status tnt_group_start(int64_t group, const tnt_call* call, int64_t* request) {
  return give(request, "request", [&] {
    const auto members = group_of(group);
    const Call checked = checked_call(*members, call, false);
    return requests().add(std::make_shared<Started>(
        members->start(checked, Group::Driver::engine, call_label()), checked));
  });
}

tnt_comm_status tnt_request_test(int64_t request, int32_t* is_done) {
  return give(is_done, "is_done", [&] { return requests().find(request)->request->is_done(); });
}

tnt_comm_status tnt_request_wait(int64_t request, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    requests().find(request)->request->wait(limit_s);
  });
}

tnt_comm_status tnt_request_wait_blocks(int64_t request, void* out, uint64_t capacity,
                                        uint64_t* counts, double timeout_s) {
  return guard([&] {
    const double limit_s = checked_timeout(timeout_s);
    const auto started = requests().find(request);
    if (!started->gathers) {
      throw UsageError("Request ", request,
                       " is neither an allgather nor a gather, and has no blocks.");
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

}  // extern "C"
