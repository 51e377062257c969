#include "tnt/comm/communicator/group.hpp"

#include <array>

#include "tnt/comm/collective/allreduce.hpp"
#include "tnt/comm/communicator/wait.hpp"
#include "tnt/comm/progress/backoff.hpp"

namespace tnt::comm {
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

std::shared_ptr<Request> Group::run(const Call& call, const CallLabel& label) {
  if (call.kind != CollectiveKind::allreduce) return start(call, Driver::caller, label);
  require_supported(call.dtype, call.op);
  abort_state_->require_intact();
  QuickAllreduce* quick = stream_.collectives->quick_allreduce();
  const std::size_t num_bytes = call.count * size_of(call.dtype);
  // The short path leaves no traces and does not say which algorithm it is.
  const bool may_be_quick = quick != nullptr && quick->takes(num_bytes) && !monitor()->timeline &&
                            !is_logged(LogLevel::debug);
  Engine::Hold hold = may_be_quick ? engine().try_hold(*stream_.order) : Engine::Hold();
  if (!hold) return start(call, Driver::caller, label);
  const Clock::time_point begin = Clock::now();
  const Descriptor descriptor = describe(call, label);
  try {
    quick->begin(call.in, call.out, descriptor);
    if (!finish_quickly(*quick)) return continue_slowly(std::move(hold), *quick, call, label);
  } catch (...) {
    break_and_rethrow(descriptor);
  }
  monitor()->meter.add_operation(num_bytes, begin, Clock::now());
  return nullptr;
}

std::shared_ptr<Request> Group::continue_slowly(Engine::Hold hold, const QuickAllreduce& quick,
                                                const Call& call, const CallLabel& label) {
  auto operation = stream_.collectives->take_over(quick, call.in, call.out);
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
    const Error error(cause.kind(), "rank ", abort_state_->world_rank(), ": ",
                      descriptor.describe(), " of group '", name(),
                      "' cannot be completed: ", cause.what(), ".");
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

Descriptor Group::describe(const Call& call, const CallLabel& label) const {
  const CollectiveTraits& traits = traits_of(call.kind);
  Descriptor descriptor{.kind = call.kind,
                        .dtype = call.dtype,
                        .count = call.count,
                        .shape = call.shape,
                        .label = fingerprint_of(label.label)};
  if (traits.reduces) {
    require_supported(call.dtype, call.op);
    descriptor.op = call.op;
  }
  if (call.kind == CollectiveKind::allreduce) {
    descriptor.algorithm = runtime_.requested_algorithm();
  }
  if (traits.has_root) descriptor.root = require_root(call.root);
  if (traits.cuts_rows()) {
    descriptor.count = bytes_in_memory(call.count, call.row_elements, traits.name);
    if (call.shape == 0 && call.row_elements != 1) {
      const std::array lengths = {static_cast<std::ptrdiff_t>(call.count),
                                  static_cast<std::ptrdiff_t>(call.row_elements)};
      descriptor.shape = pack_shape(lengths.data(), lengths.size());
    }
  }
  bytes_in_memory(descriptor.count, size_of(call.dtype), traits.name);  // what follows may multiply
  return descriptor;
}

std::uint32_t Group::require_root(int root) const {
  if (root >= 0 && root < size()) return static_cast<std::uint32_t>(root);
  throw UsageError("`root` must be a rank of the group, in [0, ", size(),
                   "). Received: root=", root, ".");
}

std::vector<Range> Group::parts_of(std::size_t num_rows, std::size_t row_elements) const {
  std::vector<Range> parts;
  for (int member = 0; member < size(); ++member) {
    const Range own =
        part_of(num_rows, static_cast<std::size_t>(size()), static_cast<std::size_t>(member));
    parts.push_back({own.begin * row_elements, own.end * row_elements});
  }
  return parts;
}

std::shared_ptr<Request> Group::start(const Call& call, Driver driver, const CallLabel& label) {
  const CollectiveTraits& traits = traits_of(call.kind);
  const Descriptor descriptor = describe(call, label);
  CallArrays arrays{.in = call.in, .out = call.out};
  if (traits.cuts_rows()) arrays.parts = parts_of(call.count, call.row_elements);
  if (traits.result == ResultLayout::blocks) arrays.gathered = std::make_shared<Gathered>();
  return start(stream_, descriptor, std::move(arrays), driver, label);
}

std::vector<std::string> Group::gather_texts(const std::string& own, const std::string& what) {
  const auto request =
      start({.kind = CollectiveKind::creation, .in = own.data(), .count = own.size()},
            Driver::caller, {.label = {}, .caller = {}, .created = what});
  request->wait(0);
  const Gathered& gathered = request->gathered();
  const auto* texts = reinterpret_cast<const char*>(gathered.blocks.data());
  std::vector<std::string> result;
  for (std::size_t member = 0; member < gathered.ends.size(); ++member) {
    result.emplace_back(texts + gathered.begin_of(member), gathered.size_of(member));
  }
  return result;
}

}  // namespace tnt::comm
