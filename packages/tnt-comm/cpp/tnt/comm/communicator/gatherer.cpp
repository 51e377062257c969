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
  for (std::size_t member = 0; member < gathered.ends.size(); ++member) {
    sizes.push_back(gathered.size_of(member));
  }
  return sizes;
}

}  // namespace

Gatherer::Gatherer(std::shared_ptr<Group> group, std::string name)
    : group_(std::move(group)), name_(std::move(name)) {
  const std::string title = text("Gatherer '", name_, "'");
  create_together(*group_, title, "", [&](SegmentSet& segments) {
    stream_ = group_->create_flat_stream(segments, kSlotBytes);
  });
  stream_.owner = title;
  stream_.drawn_as = "gather";
  stream_.row = group_->add_row(text("gatherer '", name_, "'"));
}

void Gatherer::require_open() const {
  if (is_closed_.load()) throw UsageError(text("Gatherer '", name_, "' is closed."));
}

void Gatherer::start(const void* data, std::size_t num_bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  group_->abort_state()->require_intact();
  const std::lock_guard lock(mutex_);
  require_open();
  if (step_) {
    throw UsageError(text("Gatherer '", name_,
                          "': start() of a step while the one before is not"
                          " finished. Each step is one start(), then one finish()."));
  }
  const auto own = std::make_shared<std::vector<std::byte>>(begin, begin + num_bytes);
  step_ =
      group_->start(stream_, {.kind = CollectiveKind::allgather, .count = num_bytes},
                    {.in = own->data(), .owner = own, .gathered = std::make_shared<Gathered>()});
}

std::shared_ptr<Request> Gatherer::wait_for_step(const char* call, double timeout_s,
                                                 const InterruptCheck& check_interrupt) {
  refuse_forked_child();
  std::shared_ptr<Request> step;
  {
    const std::lock_guard lock(mutex_);
    require_open();
    step = step_;
  }
  if (!step) {
    throw UsageError(text("Gatherer '", name_, "': ", call, " without a start() before it."));
  }
  step->wait(timeout_s > 0 ? timeout_s : timeout_s_.load(), check_interrupt);
  return step;
}

std::shared_ptr<Request> Gatherer::end_step(double timeout_s,
                                            const InterruptCheck& check_interrupt) {
  std::shared_ptr<Request> step = wait_for_step("finish()", timeout_s, check_interrupt);
  const std::lock_guard lock(mutex_);
  if (step_ != step) {
    throw UsageError(text("Gatherer '", name_, "': finish() by two threads for one step."));
  }
  step_.reset();
  return step;
}

std::vector<std::size_t> Gatherer::wait(double timeout_s, const InterruptCheck& check_interrupt) {
  return sizes_of(wait_for_step("wait()", timeout_s, check_interrupt)->gathered());
}

void Gatherer::finish(void* out, double timeout_s) {
  const auto step = end_step(timeout_s, {});
  const RecycledMemory& blocks = step->gathered().blocks;
  if (blocks.size() > 0) std::memcpy(out, blocks.data(), blocks.size());
}

RecycledMemory Gatherer::take(std::vector<std::size_t>& num_bytes, double timeout_s,
                              const InterruptCheck& check_interrupt) {
  const auto step = end_step(timeout_s, check_interrupt);
  num_bytes = sizes_of(step->gathered());
  return std::move(step->gathered().blocks);
}

}  // namespace tnt::comm
