#include "tnt/comm/group/group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/algorithm/allreduce.hpp"
#include "tnt/comm/algorithm/barrier.hpp"
#include "tnt/comm/algorithm/broadcast.hpp"
#include "tnt/comm/algorithm/reduce_scatter.hpp"
#include "tnt/comm/algorithm/select.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/group/group_request.hpp"

namespace tnt::comm {
namespace {

// Four windows of this size per rank. Large enough that the two rounds of a
// step are cheap next to its copies, small enough for what a rank copies in of
// its array to be still in the second-level cache when it reduces.
constexpr std::size_t kWindowBytes = 512 * 1024;
constexpr std::size_t kDepth = 2;

ChannelLayout channel_layout(std::size_t num_members) {
  ChannelLayout layout;
  layout.offset = Health::num_bytes(num_members);
  layout.window_bytes = kWindowBytes;
  layout.depth = kDepth;
  return layout;
}

Descriptor allreduce_descriptor(std::size_t count, DType dtype, ReduceOp op) {
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::allreduce;
  descriptor.dtype = dtype;
  descriptor.op = op;
  descriptor.count = count;
  return descriptor;
}

}  // namespace

bool Ticket::is_done() const {
  return operation_->completion().has_reached(1);
}

void Ticket::wait(double timeout_s, const InterruptCheck& check_interrupt) {
  const double limit_s = timeout_s > 0 ? timeout_s : group_->timeout_s();
  wait_for(group_->engine(), *operation_, *group_->health(), 1, limit_s, check_interrupt);
}

std::shared_ptr<Group> Group::create(Runtime& runtime, std::vector<int> ranks, std::string name) {
  auto group = std::make_shared<Group>(runtime, std::move(ranks), std::move(name));
  runtime.watch(group);
  return group;
}

std::shared_ptr<Group> Group::create(std::vector<int> ranks) {
  Runtime& current = runtime();
  require_valid_ranks(ranks, current.environment());
  std::string name = describe_ranks(ranks);
  return create(current, std::move(ranks), std::move(name));
}

std::shared_ptr<Group> Group::world() {
  return runtime().world();
}

Group::Group(Runtime& runtime, std::vector<int> ranks, std::string name)
    : runtime_(runtime),
      ranks_(std::move(ranks)),
      key_(group_key(ranks_, runtime.next_use_of(ranks_))) {
  const ChannelLayout layout = channel_layout(ranks_.size());
  SegmentRequest request;
  request.key = key_;
  request.members = ranks_;
  request.num_bytes = layout.offset + layout.num_bytes();
  request.num_notifications = Health::kNotification + 1;
  segment_ = runtime.transport().create_segment(request, Deadline(timeout_s()));
  health_ = std::make_shared<Health>(std::move(name), ranks_, segment_, runtime.transport());
  state_ = std::make_shared<ChannelState>(ChannelState{Channel(segment_, layout)});
  quick_ = std::make_unique<QuickAllreduce>(state_);
}

std::shared_ptr<Ticket> Group::start(std::shared_ptr<WindowedOperation> operation, Driver driver) {
  health_->require_intact();
  auto ticket = std::make_shared<Ticket>(shared_from_this(), operation);
  if (driver == Driver::caller) {
    engine().run(stream_, operation);
  } else {
    engine().submit(stream_, std::move(operation));
  }
  return ticket;
}

bool Group::is_quick(std::size_t num_bytes) const {
  return quick_->takes(num_bytes) && engine().poll_settings().spin_time.count() > 0;
}

std::shared_ptr<Ticket> Group::allreduce_now(const void* in, void* out, std::size_t count,
                                             DType dtype, ReduceOp op) {
  require_supported(dtype, op);
  health_->require_intact();
  if (!quick_->takes(count * size_of(dtype)) || !engine().try_hold(*stream_)) {
    auto ticket = start_allreduce(in, out, count, dtype, op, Driver::caller);
    return ticket;
  }
  quick_->begin(in, out, allreduce_descriptor(count, dtype, op));
  bool is_done = quick_->try_finish();
  quick_->wake_others();
  PollSettings settings = engine().poll_settings();
  if (settings.spin_time.count() > 0) settings.yield_time = std::chrono::microseconds(0);
  for (Patience patience(settings); !is_done && patience.wait_a_moment();) {
    is_done = quick_->try_finish();
  }
  if (is_done) {
    engine().release(*stream_);
    return nullptr;
  }
  auto operation = std::make_shared<DirectAllreduce>(health_, stall_report_s(), state_,
                                                     quick_->descriptor(), in, out);
  operation->take_over(quick_->descriptor());
  auto ticket = std::make_shared<Ticket>(shared_from_this(), operation);
  engine().hand_over(stream_, std::move(operation));
  return ticket;
}

std::shared_ptr<Ticket> Group::start_barrier(Driver driver) {
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::barrier;
  return start(std::make_shared<Barrier>(health_, stall_report_s(), state_, descriptor), driver);
}

std::shared_ptr<Ticket> Group::start_allreduce(const void* in, void* out, std::size_t count,
                                               DType dtype, ReduceOp op, Driver driver) {
  require_supported(dtype, op);
  const Descriptor descriptor = allreduce_descriptor(count, dtype, op);
  const AllreduceRequest request{health_, stall_report_s(), state_, descriptor, in, out, blocks_};
  return start(choose_allreduce(count * size_of(dtype), size()).make(request), driver);
}

std::shared_ptr<Ticket> Group::start_broadcast(const void* in, void* out, std::size_t count,
                                               DType dtype, int root, Driver driver) {
  if (root < 0 || root >= size()) {
    throw UsageError(text("`root` must be a rank of the group, in [0, ", size(),
                          "). Received: root=", root, "."));
  }
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::broadcast;
  descriptor.dtype = dtype;
  descriptor.root = static_cast<std::uint32_t>(root);
  descriptor.count = count;
  return start(std::make_shared<Broadcast>(health_, stall_report_s(), state_, descriptor, in, out),
               driver);
}

std::shared_ptr<Ticket> Group::start_allgather(const void* in, std::size_t count, DType dtype,
                                               std::uint64_t shape_id, Driver driver) {
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::allgather;
  descriptor.dtype = dtype;
  descriptor.count = count;
  descriptor.shape = shape_id;
  return start(std::make_shared<Allgather>(health_, stall_report_s(), state_, descriptor, in),
               driver);
}

std::shared_ptr<Ticket> Group::start_reduce_scatter(const void* in, void* out, std::size_t num_rows,
                                                    std::size_t row_elements, DType dtype,
                                                    ReduceOp op, Driver driver) {
  require_supported(dtype, op);
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::reduce_scatter;
  descriptor.dtype = dtype;
  descriptor.op = op;
  descriptor.count = num_rows * row_elements;
  descriptor.shape = num_rows;
  std::vector<Range> parts;
  for (int member = 0; member < size(); ++member) {
    const Range rows =
        part_of(num_rows, static_cast<std::size_t>(size()), static_cast<std::size_t>(member));
    parts.push_back({rows.begin * row_elements, rows.end * row_elements});
  }
  return start(std::make_shared<ReduceScatter>(health_, stall_report_s(), state_, descriptor,
                                               std::move(parts), in, out),
               driver);
}

std::vector<std::string> Group::exchange(const std::string& own) {
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::creation;
  descriptor.count = own.size();
  const auto ticket =
      start(std::make_shared<Allgather>(health_, stall_report_s(), state_, descriptor, own.data()),
            Driver::caller);
  ticket->wait(0);
  const auto& gathered = ticket->operation<Allgather>();
  std::vector<std::string> result;
  std::size_t begin = 0;
  for (const std::size_t end : gathered.ends()) {
    const auto* text_begin = reinterpret_cast<const char*>(gathered.result().data()) + begin;
    result.emplace_back(text_begin, end - begin);
    begin = end;
  }
  return result;
}

std::shared_ptr<Segment> Group::create_segment(std::size_t num_bytes,
                                               std::size_t num_notifications) {
  SegmentRequest request;
  {
    const std::lock_guard lock(mutex_);
    request.key = text(key_, "-", num_objects_++);
  }
  request.members = ranks_;
  request.num_bytes = num_bytes;
  request.num_notifications = num_notifications;
  try {
    return runtime_.transport().create_segment(request, Deadline(timeout_s()));
  } catch (const Error& error) {
    health_->fail(error);
    throw;
  }
}

}  // namespace tnt::comm
