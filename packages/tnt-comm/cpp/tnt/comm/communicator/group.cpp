#include "tnt/comm/communicator/group.hpp"

#include <array>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/collective/allreduce.hpp"
#include "tnt/comm/communicator/wait.hpp"

namespace tnt::comm {
namespace {

Descriptor descriptor_of(CollectiveKind kind, std::size_t count, DType dtype,
                         const CallLabel& label) {
  return {.kind = kind,
          .dtype = dtype,
          .count = count,
          .shape = label.shape,
          .label = fingerprint_of(label.label)};
}

Descriptor allreduce_descriptor(std::size_t count, DType dtype, ReduceOp op,
                                AllreduceAlgorithm algorithm, const CallLabel& label) {
  bytes_in_memory(count, size_of(dtype), "allreduce");  // what follows may multiply
  Descriptor descriptor = descriptor_of(CollectiveKind::allreduce, count, dtype, label);
  descriptor.op = op;
  descriptor.algorithm = algorithm;
  return descriptor;
}

// Of a collective that cuts an array into parts.
Descriptor rows_descriptor(CollectiveKind kind, const Group::Rows& rows, DType dtype,
                           const CallLabel& label) {
  const std::size_t count = bytes_in_memory(rows.count, rows.num_elements, name_of(kind));
  Descriptor descriptor = descriptor_of(kind, count, dtype, label);
  if (descriptor.shape == 0 && rows.num_elements != 1) {
    const std::array lengths = {static_cast<std::ptrdiff_t>(rows.count),
                                static_cast<std::ptrdiff_t>(rows.num_elements)};
    descriptor.shape = pack_shape(lengths.data(), lengths.size());
  }
  return descriptor;
}

CallArrays gathering(const void* in) {
  return {.in = in, .gathered = std::make_shared<Gathered>()};
}

}  // namespace

bool Request::is_done() const {
  return operation_->completion().has_reached(1);
}

void Request::wait(double timeout_s, const InterruptCheck& check_interrupt) {
  const double limit_s = timeout_s > 0 ? timeout_s : group_->timeout_s();
  wait_for(*group_, *operation_, 1, limit_s, check_interrupt);
}

RowId Group::add_row(const std::string& title) const {
  return monitor()->timeline ? monitor()->timeline->add_row(OperationTrack::row(title)) : 0;
}

std::shared_ptr<Request> Group::start(CallStream& stream, const Descriptor& descriptor,
                                      CallArrays arrays, Driver driver, const CallLabel& label) {
  bytes_in_memory(descriptor.count, size_of(descriptor.dtype), name_of(descriptor.kind));
  auto gathered = arrays.gathered;
  auto operation = stream.collectives->make(descriptor, std::move(arrays));
  abort_state_->require_intact();
  operation->belong_to(stream.owner);
  const bool is_note_late = driver == Driver::caller && label.must_find_caller();
  if (is_note_late) {
    operation->note().promise();
  } else {
    operation->note().give(note_of(label));
  }
  std::shared_ptr<Track> track;
  if (monitor()->timeline) {
    track = std::make_shared<OperationTrack>(
        *monitor()->timeline, stream.row,
        stream.drawn_as.empty() ? name_of(descriptor.kind) : stream.drawn_as,
        descriptor.num_bytes());
  }
  Probe& probe = operation->probe();
  probe.attach(monitor(), std::move(track), descriptor.num_bytes());
  auto request = std::make_shared<Request>(shared_from_this(), operation, std::move(gathered));
  try {
    if (driver == Driver::caller) {
      probe.post_and_wait();
      engine().run(stream.order, operation);
    } else {
      probe.post();
      engine().submit(stream.order, operation);
    }
    if (is_note_late && !request->is_done()) operation->note().give(note_of(label));
  } catch (...) {
    break_and_rethrow(descriptor);
  }
  return request;
}

bool Group::is_quick(std::size_t num_bytes) const {
  const QuickAllreduce* quick = stream_.collectives->quick_allreduce();
  return quick != nullptr && quick->takes(num_bytes) &&
         engine().poll_settings().spin_time.count() > 0;
}

std::shared_ptr<Request> Group::allreduce_now(const void* in, void* out, std::size_t count,
                                              DType dtype, ReduceOp op, const CallLabel& label) {
  require_supported(dtype, op);
  abort_state_->require_intact();
  QuickAllreduce* quick = stream_.collectives->quick_allreduce();
  const std::size_t num_bytes = count * size_of(dtype);
  // The short path leaves no traces and does not say which algorithm it is.
  const bool may_be_quick = quick != nullptr && quick->takes(num_bytes) && !monitor()->timeline &&
                            !is_logged(LogLevel::debug);
  Engine::Hold hold = may_be_quick ? engine().try_hold(*stream_.order) : Engine::Hold();
  if (!hold) return start_allreduce(in, out, count, dtype, op, Driver::caller, label);
  const Clock::time_point begin = Clock::now();
  const Descriptor descriptor =
      allreduce_descriptor(count, dtype, op, runtime_.requested_algorithm(), label);
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
  auto operation = stream_.collectives->take_over(quick, in, out);
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
  return start(stream_, descriptor_of(CollectiveKind::barrier, 0, DType::uint8, label), {}, driver,
               label);
}

std::shared_ptr<Request> Group::start_allreduce(const void* in, void* out, std::size_t count,
                                                DType dtype, ReduceOp op, Driver driver,
                                                const CallLabel& label) {
  require_supported(dtype, op);
  const Descriptor descriptor =
      allreduce_descriptor(count, dtype, op, runtime_.requested_algorithm(), label);
  return start(stream_, descriptor, {.in = in, .out = out}, driver, label);
}

std::uint32_t Group::require_root(int root) const {
  if (root >= 0 && root < size()) return static_cast<std::uint32_t>(root);
  throw UsageError(
      text("`root` must be a rank of the group, in [0, ", size(), "). Received: root=", root, "."));
}

std::shared_ptr<Request> Group::start_broadcast(const void* in, void* out, std::size_t count,
                                                DType dtype, int root, Driver driver,
                                                const CallLabel& label) {
  Descriptor descriptor = descriptor_of(CollectiveKind::broadcast, count, dtype, label);
  descriptor.root = require_root(root);
  return start(stream_, descriptor, {.in = in, .out = out}, driver, label);
}

std::shared_ptr<Request> Group::start_allgather(const void* in, std::size_t count, DType dtype,
                                                std::uint64_t row_shape, Driver driver,
                                                const CallLabel& label) {
  Descriptor descriptor = descriptor_of(CollectiveKind::allgather, count, dtype, label);
  descriptor.shape = row_shape;
  return start(stream_, descriptor, gathering(in), driver, label);
}

std::shared_ptr<Request> Group::start_gather(const void* in, std::size_t count, DType dtype,
                                             std::uint64_t row_shape, int root, Driver driver,
                                             const CallLabel& label) {
  Descriptor descriptor = descriptor_of(CollectiveKind::gather, count, dtype, label);
  descriptor.root = require_root(root);
  descriptor.shape = row_shape;
  return start(stream_, descriptor, gathering(in), driver, label);
}

std::shared_ptr<Request> Group::start_reduce_scatter(const void* in, void* out, const Rows& rows,
                                                     DType dtype, ReduceOp op, Driver driver,
                                                     const CallLabel& label) {
  require_supported(dtype, op);
  Descriptor descriptor = rows_descriptor(CollectiveKind::reduce_scatter, rows, dtype, label);
  descriptor.op = op;
  return start(stream_, descriptor, {.in = in, .out = out, .parts = parts_of(rows)}, driver, label);
}

std::shared_ptr<Request> Group::start_alltoall(const void* in, void* out, const Rows& rows,
                                               DType dtype, Driver driver, const CallLabel& label) {
  return start(stream_, rows_descriptor(CollectiveKind::alltoall, rows, dtype, label),
               {.in = in, .out = out, .parts = parts_of(rows)}, driver, label);
}

std::shared_ptr<Request> Group::start_scatter(const void* in, void* out, const Rows& rows,
                                              DType dtype, int root, Driver driver,
                                              const CallLabel& label) {
  Descriptor descriptor = rows_descriptor(CollectiveKind::scatter, rows, dtype, label);
  descriptor.root = require_root(root);
  return start(stream_, descriptor, {.in = in, .out = out, .parts = parts_of(rows)}, driver, label);
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

std::vector<std::string> Group::gather_texts(const std::string& own, const std::string& what) {
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::creation;
  descriptor.count = own.size();
  CallArrays arrays = gathering(own.data());
  const std::shared_ptr<Gathered> gathered = arrays.gathered;
  start(stream_, descriptor, std::move(arrays), Driver::caller,
        {.label = {}, .caller = {}, .created = what})
      ->wait(0);
  const auto* texts = reinterpret_cast<const char*>(gathered->blocks.data());
  std::vector<std::string> result;
  for (std::size_t member = 0; member < gathered->ends.size(); ++member) {
    result.emplace_back(texts + gathered->begin_of(member), gathered->size_of(member));
  }
  return result;
}

}  // namespace tnt::comm
