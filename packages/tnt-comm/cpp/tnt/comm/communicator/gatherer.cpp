#include "tnt/comm/communicator/gatherer.hpp"

#include <cstring>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/communicator/creation.hpp"

namespace tnt::comm {
namespace {

// Longer blocks take several steps. Gatherers are many and blocks mostly
// short, so the slots are smaller than a group's.
constexpr std::size_t kSlotBytes = 64 * 1024;

std::vector<std::size_t> sizes_of(const Gathered& gathered) {
  std::vector<std::size_t> sizes;
  std::size_t begin = 0;
  for (const std::size_t end : gathered.ends) {
    sizes.push_back(end - begin);
    begin = end;
  }
  return sizes;
}

}  // namespace

Gatherer::Gatherer(std::shared_ptr<Group> group, std::string name)
    : group_(std::move(group)), name_(std::move(name)) {
  create_together(*group_, text("Gatherer '", name_, "'"), "", [this](SegmentSet& segments) {
    stream_ = group_->create_flat_stream(segments, kSlotBytes);
  });
  if (Timeline* timeline = group_->monitor()->timeline.get()) {
    row_ = timeline->add_row(OperationTrack::row(text("gatherer '", name_, "'")));
  }
}

void Gatherer::observe(Probe& probe, std::size_t num_bytes) const {
  Timeline* timeline = group_->monitor()->timeline.get();
  auto track = timeline != nullptr
                   ? std::make_shared<OperationTrack>(*timeline, row_, "gather", num_bytes)
                   : nullptr;
  probe.attach(group_->monitor(), std::move(track), num_bytes);
  probe.post();
}

void Gatherer::start(const void* data, std::size_t num_bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::allgather;
  descriptor.count = num_bytes;
  group_->abort_state()->require_intact();
  const std::lock_guard lock(mutex_);
  if (is_closed_.load()) throw UsageError(text("Gatherer '", name_, "' is closed."));
  if (step_) {
    throw UsageError(text("Gatherer '", name_,
                          "': start() of a step while the one before is not"
                          " finished. Each step is one start(), then one finish()."));
  }
  auto gathered = std::make_shared<Gathered>();
  auto operation = stream_->make(descriptor, {.gather_input = std::make_shared<GatherInput>(
                                                  std::vector<std::byte>(begin, begin + num_bytes)),
                                              .gathered = gathered});
  operation->belong_to(text("Gatherer '", name_, "'"));
  observe(operation->probe(), num_bytes);
  group_->engine().submit(order_, operation);
  step_ = std::make_shared<Step>(Step{std::move(operation), std::move(gathered)});
}

std::shared_ptr<Gatherer::Step> Gatherer::current(const char* call) {
  refuse_forked_child();
  const std::lock_guard lock(mutex_);
  if (is_closed_.load()) throw UsageError(text("Gatherer '", name_, "' is closed."));
  if (!step_) {
    throw UsageError(text("Gatherer '", name_, "': ", call, " without a start() before it."));
  }
  return step_;
}

std::shared_ptr<Gatherer::Step> Gatherer::wait_for_current(const char* call, double timeout_s,
                                                           const InterruptCheck& check_interrupt) {
  std::shared_ptr<Step> step = current(call);
  if (timeout_s <= 0) timeout_s = timeout_s_.load();
  const double limit_s = timeout_s > 0 ? timeout_s : group_->timeout_s();
  wait_for(*group_, *step->operation, 1, limit_s, check_interrupt);
  return step;
}

void Gatherer::end_step(const std::shared_ptr<Step>& step, const char* call) {
  const std::lock_guard lock(mutex_);
  if (step_ != step) {
    throw UsageError(text("Gatherer '", name_, "': ", call, " by two threads for one step."));
  }
  step_.reset();
}

std::vector<std::size_t> Gatherer::wait(double timeout_s, const InterruptCheck& check_interrupt) {
  return sizes_of(*wait_for_current("wait()", timeout_s, check_interrupt)->gathered);
}

void Gatherer::finish(void* out, double timeout_s) {
  const auto step = wait_for_current("finish()", timeout_s, {});
  end_step(step, "finish()");
  const RecycledMemory& blocks = step->gathered->blocks;
  if (blocks.size() > 0) std::memcpy(out, blocks.data(), blocks.size());
}

RecycledMemory Gatherer::take(std::vector<std::size_t>& num_bytes, double timeout_s,
                              const InterruptCheck& check_interrupt) {
  const auto step = wait_for_current("finish()", timeout_s, check_interrupt);
  end_step(step, "finish()");
  num_bytes = sizes_of(*step->gathered);
  return std::move(step->gathered->blocks);
}

}  // namespace tnt::comm
