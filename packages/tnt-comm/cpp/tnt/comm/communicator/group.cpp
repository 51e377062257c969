#include "tnt/comm/communicator/group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tnt/comm/base/log.hpp"
#include "tnt/comm/base/memory_size.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/collective/quick_allreduce.hpp"
#include "tnt/comm/communicator/creation_watch.hpp"
#include "tnt/comm/communicator/group_request.hpp"
#include "tnt/comm/communicator/segment_set.hpp"
#include "tnt/comm/communicator/streams.hpp"

namespace tnt::comm {
namespace {

int index_in(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

HostLayout hosts_of(const Transport& transport, const std::vector<int>& ranks) {
  std::vector<int> nodes;
  for (const int rank : ranks) nodes.push_back(transport.node_of(rank));
  return host_layout(nodes);
}

// All that follows may multiply without a look.
void require_size(std::string_view what, std::size_t count, DType dtype) {
  bytes_in_memory(count, size_of(dtype), what);
}

Descriptor allreduce_descriptor(std::size_t count, DType dtype, ReduceOp op,
                                AllreduceAlgorithm algorithm, const CallLabel& label) {
  require_size("An allreduce", count, dtype);
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::allreduce;
  descriptor.dtype = dtype;
  descriptor.op = op;
  descriptor.count = count;
  descriptor.algorithm = algorithm;
  descriptor.label = fingerprint_of(label.label);
  return descriptor;
}

std::size_t num_elements_of(const Group::Rows& rows) {
  return bytes_in_memory(rows.count, rows.num_elements, "An array");
}

CallArrays gathering(const void* in) {
  return {.gather_input = std::make_shared<GatherInput>(in),
          .gathered = std::make_shared<Gathered>()};
}

}  // namespace

bool Request::is_done() const {
  return operation_->completion().has_reached(1);
}

void Request::wait(double timeout_s, const InterruptCheck& check_interrupt) {
  const double limit_s = timeout_s > 0 ? timeout_s : group_->timeout_s();
  wait_for(*group_, *operation_, 1, limit_s, check_interrupt);
}

std::shared_ptr<Group> Group::create(Runtime& runtime, std::vector<int> ranks,
                                     const std::string& name, const CallLabel& label) {
  auto group = std::make_shared<Group>(runtime, std::move(ranks));
  group->join(name, label);
  runtime.watch(group);
  return group;
}

std::shared_ptr<Group> Group::create(std::vector<int> ranks, const CallLabel& label) {
  Runtime& current = runtime();
  require_valid_ranks(ranks, current.environment());
  const std::string name = describe_ranks(ranks);
  return create(current, std::move(ranks), name, label);
}

std::shared_ptr<Group> Group::world() {
  return runtime().world();
}

Group::Group(Runtime& runtime, std::vector<int> ranks)
    : runtime_(runtime),
      ranks_(std::move(ranks)),
      rank_(index_in(ranks_, runtime.environment().rank)),
      id_(runtime.next_creation_of(ranks_)),
      key_(group_key(id_)),
      hosts_(hosts_of(runtime.transport(), ranks_)) {
  if (runtime.transport().is_readable_among(ranks_)) {
    topology_ = Topology::readable;
  } else {
    topology_ = hosts_.has_branches ? Topology::hierarchical : Topology::put_only;
  }
}

void Group::join(const std::string& name, const CallLabel& label) {
  const std::string title = text("group '", name, "'");
  const std::shared_ptr<Group>& world = runtime_.world();
  CreationWatch watch(world ? world->abort_state()->creations() : nullptr, id_, ranks_, title,
                      label, stall_report_s());
  try {
    open(name, title, watch);
  } catch (...) {
    const Error error = Error::current();
    watch.fail(error);
    if (abort_state_) abort_state_->fail(error);  // the others may have the group
    runtime_.note_failed_creation(error.what());
    throw;
  }
}

void Group::open(const std::string& name, const std::string& title, CreationWatch& watch) {
  // The first group is the world, which has room for news of later ones.
  const std::shared_ptr<Group>& world = runtime_.world();
  const std::size_t creations_offset = AbortState::num_bytes(ranks_.size());
  const NotificationId creations_notification = AbortState::kNotification + 1;
  std::size_t offset = creations_offset;
  NotificationId notification = creations_notification;
  if (!world) {
    offset += Creations::num_bytes(ranks_.size());
    notification += Creations::kNumNotifications;
  }
  std::shared_ptr<Creations> creations = world ? world->abort_state()->creations() : nullptr;
  const std::size_t slot_bytes = slot_bytes_for(topology_);
  const MemoryNeeds needs = stream_needs(topology_, size(), slot_bytes);
  SegmentSet segments(*this, key_, title, [&watch] { watch.look(); });
  StreamMemory memory;
  memory.slot_bytes = slot_bytes;
  memory.offset = offset;
  memory.notification = notification;
  if (topology_ == Topology::hierarchical) create_levels(segments, hosts_, memory);
  // At last that of all members: none has it before all have made the others.
  segment_ = segments.create({offset + needs.num_bytes, notification + needs.num_notifications});
  memory.segment = segment_;
  if (!creations) {
    creations = std::make_shared<Creations>(segment_, creations_offset, creations_notification);
  }
  abort_state_ = std::make_shared<AbortState>(name, ranks_, segment_, runtime_.transport(),
                                              std::move(creations));
  stream_ = make_stream(*this, operation_context(), memory);
  warn_of_one_level();
  if (monitor()->timeline) {
    row_ = monitor()->timeline->add_row(OperationTrack::row(title));
  }
}

std::shared_ptr<Track> Group::track_of(const Descriptor& descriptor) const {
  if (!monitor()->timeline) return nullptr;
  return std::make_shared<OperationTrack>(*monitor()->timeline, row_, name_of(descriptor.kind),
                                          descriptor.num_bytes());
}

void Group::warn_of_one_level() const {
  if (topology_ != Topology::put_only || hosts_.objection.empty() || rank() != 0) return;
  log_warning(abort_state_->world_rank(),
              text("group '", name(), "' sends the data of every rank over the network: ",
                   hosts_.objection, " the ranks of a host would be summed before."));
}

OperationContext Group::operation_context() const {
  return {abort_state_, runtime_.requested_algorithm(), regions_};
}

std::shared_ptr<Request> Group::start(const Descriptor& descriptor, CallArrays arrays,
                                      Driver driver, const CallLabel& label) {
  require_size(text("An array of ", name_of(descriptor.kind)), descriptor.count, descriptor.dtype);
  auto gathered = arrays.gathered;
  auto operation = stream_->make(descriptor, std::move(arrays));
  abort_state_->require_intact();
  const bool is_note_late = driver == Driver::caller && label.must_find_caller();
  if (is_note_late) {
    operation->note().promise();
  } else {
    operation->note().give(note_of(label));
  }
  Probe& probe = operation->probe();
  probe.attach(monitor(), track_of(descriptor), descriptor.num_bytes());
  if (driver == Driver::caller) {
    probe.post_and_wait();
  } else {
    probe.post();
  }
  auto request = std::make_shared<Request>(shared_from_this(), operation, std::move(gathered));
  try {
    if (driver == Driver::caller) {
      engine().run(order_, operation);
    } else {
      engine().submit(order_, operation);
    }
    if (is_note_late && !request->is_done()) operation->note().give(note_of(label));
  } catch (...) {
    break_and_rethrow(descriptor);
  }
  return request;
}

bool Group::is_quick(std::size_t num_bytes) const {
  const QuickAllreduce* quick = stream_->quick_allreduce();
  return quick != nullptr && quick->takes(num_bytes) &&
         engine().poll_settings().spin_time.count() > 0;
}

std::shared_ptr<Request> Group::allreduce_now(const void* in, void* out, std::size_t count,
                                              DType dtype, ReduceOp op, const CallLabel& label) {
  require_supported(dtype, op);
  abort_state_->require_intact();
  QuickAllreduce* quick = stream_->quick_allreduce();
  const std::size_t num_bytes = count * size_of(dtype);
  // The short path leaves no traces and does not say which algorithm it is.
  const bool may_be_quick = quick != nullptr && quick->takes(num_bytes) && !monitor()->timeline &&
                            !is_logged(LogLevel::debug);
  Engine::Hold hold = may_be_quick ? engine().try_hold(*order_) : Engine::Hold();
  if (!hold) return start_allreduce(in, out, count, dtype, op, Driver::caller, label);
  const Clock::time_point begin = Clock::now();
  const Descriptor descriptor =
      allreduce_descriptor(count, dtype, op, requested_algorithm(), label);
  try {
    quick->begin(in, out, descriptor);
    if (!finish_quickly(*quick)) return continue_slowly(std::move(hold), *quick, in, out, label);
  } catch (...) {
    break_and_rethrow(descriptor);
  }
  monitor()->meter.add_operation(num_bytes, begin, Clock::now());
  return nullptr;
}

std::shared_ptr<Request> Group::continue_slowly(Engine::Hold hold, const QuickAllreduce& quick,
                                                const void* in, void* out, const CallLabel& label) {
  auto operation = stream_->take_over(quick, in, out);
  operation->note().give(note_of(label));
  operation->probe().attach(monitor(), nullptr, quick.descriptor().num_bytes());
  operation->probe().post_and_wait();
  auto request = std::make_shared<Request>(shared_from_this(), operation, nullptr);
  engine().hand_over(std::move(hold), std::move(operation));
  return request;
}

// The others have this rank's part, or wait for it: the call cannot be undone.
void Group::break_and_rethrow(const Descriptor& descriptor) {
  try {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) abort_state_->fail(error);  // else nothing was sent
    throw;
  } catch (...) {
    const Error cause = Error::current();
    const Error error(cause.kind(),
                      text("rank ", abort_state_->world_rank(), ": ", descriptor.describe(),
                           " of group '", name(), "' cannot be completed: ", cause.what(), "."));
    abort_state_->fail(error);
    throw error;
  }
}

bool Group::finish_quickly(QuickAllreduce& quick) {
  bool is_done = quick.try_finish();
  quick.wake_others();
  PollSettings settings = engine().poll_settings();
  if (settings.spin_time.count() > 0) settings.yield_time = std::chrono::microseconds(0);
  for (Backoff backoff(settings); !is_done && backoff.wait_a_moment();) {
    is_done = quick.try_finish();
  }
  return is_done;
}

std::shared_ptr<Request> Group::start_barrier(Driver driver, const CallLabel& label) {
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::barrier;
  descriptor.label = fingerprint_of(label.label);
  return start(descriptor, {}, driver, label);
}

std::shared_ptr<Request> Group::start_allreduce(const void* in, void* out, std::size_t count,
                                                DType dtype, ReduceOp op, Driver driver,
                                                const CallLabel& label) {
  require_supported(dtype, op);
  const Descriptor descriptor =
      allreduce_descriptor(count, dtype, op, requested_algorithm(), label);
  return start(descriptor, {.in = in, .out = out}, driver, label);
}

std::uint32_t Group::require_root(int root) const {
  if (root >= 0 && root < size()) return static_cast<std::uint32_t>(root);
  throw UsageError(
      text("`root` must be a rank of the group, in [0, ", size(), "). Received: root=", root, "."));
}

std::shared_ptr<Request> Group::start_broadcast(const void* in, void* out, std::size_t count,
                                                DType dtype, int root, Driver driver,
                                                const CallLabel& label) {
  const Descriptor descriptor{.kind = CollectiveKind::broadcast,
                              .dtype = dtype,
                              .root = require_root(root),
                              .count = count,
                              .label = fingerprint_of(label.label)};
  return start(descriptor, {.in = in, .out = out}, driver, label);
}

std::shared_ptr<Request> Group::start_allgather(const void* in, std::size_t count, DType dtype,
                                                std::uint64_t shape_id, Driver driver,
                                                const CallLabel& label) {
  const Descriptor descriptor{.kind = CollectiveKind::allgather,
                              .dtype = dtype,
                              .count = count,
                              .shape = shape_id,
                              .label = fingerprint_of(label.label)};
  return start(descriptor, gathering(in), driver, label);
}

std::shared_ptr<Request> Group::start_gather(const void* in, std::size_t count, DType dtype,
                                             std::uint64_t shape_id, int root, Driver driver,
                                             const CallLabel& label) {
  const Descriptor descriptor{.kind = CollectiveKind::gather,
                              .dtype = dtype,
                              .root = require_root(root),
                              .count = count,
                              .shape = shape_id,
                              .label = fingerprint_of(label.label)};
  return start(descriptor, gathering(in), driver, label);
}

std::shared_ptr<Request> Group::start_reduce_scatter(const void* in, void* out, const Rows& rows,
                                                     DType dtype, ReduceOp op, Driver driver,
                                                     const CallLabel& label) {
  require_supported(dtype, op);
  const Descriptor descriptor{.kind = CollectiveKind::reduce_scatter,
                              .dtype = dtype,
                              .op = op,
                              .count = num_elements_of(rows),
                              .shape = rows.count,
                              .label = fingerprint_of(label.label)};
  return start(descriptor, {.in = in, .out = out, .parts = parts_of(rows)}, driver, label);
}

std::shared_ptr<Request> Group::start_alltoall(const void* in, void* out, const Rows& rows,
                                               DType dtype, Driver driver, const CallLabel& label) {
  const Descriptor descriptor{.kind = CollectiveKind::alltoall,
                              .dtype = dtype,
                              .count = num_elements_of(rows),
                              .shape = rows.count,
                              .label = fingerprint_of(label.label)};
  return start(descriptor, {.in = in, .out = out, .parts = parts_of(rows)}, driver, label);
}

std::shared_ptr<Request> Group::start_scatter(const void* in, void* out, const Rows& rows,
                                              DType dtype, int root, Driver driver,
                                              const CallLabel& label) {
  const Descriptor descriptor{.kind = CollectiveKind::scatter,
                              .dtype = dtype,
                              .root = require_root(root),
                              .count = num_elements_of(rows),
                              .shape = rows.count,
                              .label = fingerprint_of(label.label)};
  return start(descriptor, {.in = in, .out = out, .parts = parts_of(rows)}, driver, label);
}

std::vector<Range> Group::parts_of(const Rows& rows) const {
  std::vector<Range> parts;
  for (int member = 0; member < size(); ++member) {
    const Range own =
        part_of(rows.count, static_cast<std::size_t>(size()), static_cast<std::size_t>(member));
    parts.push_back({own.begin * rows.num_elements, own.end * rows.num_elements});
  }
  return parts;
}

std::vector<std::string> Group::exchange(const std::string& own, const std::string& what) {
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::creation;
  descriptor.count = own.size();
  CallArrays arrays = gathering(own.data());
  const std::shared_ptr<Gathered> gathered = arrays.gathered;
  start(descriptor, std::move(arrays), Driver::caller, {.label = {}, .caller = {}, .created = what})
      ->wait(0);
  std::vector<std::string> result;
  std::size_t begin = 0;
  for (const std::size_t end : gathered->ends) {
    const auto* text_begin = reinterpret_cast<const char*>(gathered->blocks.data()) + begin;
    result.emplace_back(text_begin, end - begin);
    begin = end;
  }
  return result;
}

std::unique_ptr<Collectives> Group::create_flat_stream(SegmentSet& segments,
                                                       std::size_t slot_bytes) {
  const MemoryNeeds needs = stream_needs(topology_, size(), slot_bytes);
  return make_flat_stream(topology_, operation_context(),
                          {.segment = segments.create(needs), .slot_bytes = slot_bytes});
}

std::pair<CreationId, std::string> Group::next_object() {
  const std::uint64_t number = num_objects_++;
  return {{.members = fingerprint_of(std::string_view(key_)), .use = number},
          text(key_, "-object-", number)};
}

}  // namespace tnt::comm
