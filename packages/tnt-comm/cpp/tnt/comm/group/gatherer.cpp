#include "tnt/comm/group/gatherer.hpp"

#include <cstring>
#include <utility>

#include "tnt/comm/base/text.hpp"
#include "tnt/comm/group/creation.hpp"

namespace tnt::comm {
namespace {

// Longer blocks take several steps. Gatherers are many and blocks mostly
// short, so the windows are smaller than a group's.
constexpr std::size_t kWindowBytes = 64 * 1024;
constexpr std::size_t kDepth = 2;

std::vector<std::size_t> sizes_of(const Allgather& operation) {
  std::vector<std::size_t> sizes;
  std::size_t begin = 0;
  for (const std::size_t end : operation.ends()) {
    sizes.push_back(end - begin);
    begin = end;
  }
  return sizes;
}

}  // namespace

Gatherer::Gatherer(std::shared_ptr<Group> group, std::string name)
    : group_(std::move(group)), name_(std::move(name)) {
  require_same_creation(*group_, text("Gatherer '", name_, "'"), "");
  ChannelLayout layout;
  layout.window_bytes = kWindowBytes;
  layout.depth = kDepth;
  const std::size_t num_bytes = layout.num_bytes();
  const std::shared_ptr<Segment> segment = group_->create_segment(num_bytes, 0);
  state_ = std::make_shared<ChannelState>(ChannelState{Channel(segment, layout)});
}

void Gatherer::start(const void* data, std::size_t num_bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::allgather;
  descriptor.count = num_bytes;
  group_->health()->require_intact();
  const std::lock_guard lock(mutex_);
  if (is_closed_.load()) throw UsageError(text("Gatherer '", name_, "' is closed."));
  if (operation_) {
    throw UsageError(text("Gatherer '", name_,
                          "': start() of a step while the one before is not"
                          " finished. Each step is one start(), then one finish()."));
  }
  auto operation =
      std::make_shared<Allgather>(group_->health(), group_->stall_report_s(), state_, descriptor,
                                  std::vector<std::byte>(begin, begin + num_bytes));
  group_->engine().submit(stream_, operation);
  operation_ = std::move(operation);
}

std::shared_ptr<Allgather> Gatherer::current(const char* call) {
  const std::lock_guard lock(mutex_);
  if (is_closed_.load()) throw UsageError(text("Gatherer '", name_, "' is closed."));
  if (!operation_) {
    throw UsageError(text("Gatherer '", name_, "': ", call, " without a start() before it."));
  }
  return operation_;
}

std::shared_ptr<Allgather> Gatherer::wait_for_current(const char* call, double timeout_s,
                                                      const InterruptCheck& check_interrupt) {
  std::shared_ptr<Allgather> operation = current(call);
  const double limit_s = timeout_s > 0 ? timeout_s : group_->timeout_s();
  wait_for(group_->engine(), *operation, *group_->health(), 1, limit_s, check_interrupt);
  return operation;
}

void Gatherer::end_step(const std::shared_ptr<Allgather>& operation, const char* call) {
  const std::lock_guard lock(mutex_);
  if (operation_ != operation) {
    throw UsageError(text("Gatherer '", name_, "': ", call, " by two threads for one step."));
  }
  operation_.reset();
}

std::vector<std::size_t> Gatherer::wait(double timeout_s, const InterruptCheck& check_interrupt) {
  return sizes_of(*wait_for_current("wait()", timeout_s, check_interrupt));
}

void Gatherer::finish(void* out, double timeout_s) {
  const auto operation = wait_for_current("finish()", timeout_s, {});
  end_step(operation, "finish()");
  const std::vector<std::byte>& blocks = operation->result();
  if (!blocks.empty()) std::memcpy(out, blocks.data(), blocks.size());
}

std::vector<std::byte> Gatherer::take(std::vector<std::size_t>& num_bytes, double timeout_s,
                                      const InterruptCheck& check_interrupt) {
  const auto operation = wait_for_current("finish()", timeout_s, check_interrupt);
  end_step(operation, "finish()");
  num_bytes = sizes_of(*operation);
  return std::move(operation->result());
}

}  // namespace tnt::comm
