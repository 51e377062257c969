#include "tnt/comm/communicator/gatherer.hpp"

#include <cstring>
#include <utility>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/communicator/group_object.hpp"

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
  if (is_closed_.load()) throw UsageError("Gatherer '", name_, "' is closed.");
}

void Gatherer::start(const void* data, std::size_t num_bytes, const CallLabel& label) {
  const auto* begin = static_cast<const std::byte*>(data);
  group_->abort_state()->require_intact();
  const std::lock_guard lock(mutex_);
  require_open();
  if (request_) {
    throw UsageError("Gatherer '", name_,
                     "': start() of a step while the one before is not"
                     " finished. Each step is one start(), then one finish().");
  }
  const auto own = std::make_shared<std::vector<std::byte>>(begin, begin + num_bytes);
  request_ = group_->start(
      stream_,
      {.kind = CollectiveKind::allgather, .count = num_bytes, .label = fingerprint_of(label.label)},
      {.in = own->data(), .owner = own, .gathered = std::make_shared<Gathered>()},
      Group::Driver::engine, label);
}

std::shared_ptr<Request> Gatherer::wait_for_request(const char* call, double timeout_s,
                                                    const InterruptCheck& check_interrupt) {
  refuse_forked_child();
  std::shared_ptr<Request> request;
  {
    const std::lock_guard lock(mutex_);
    require_open();
    request = request_;
  }
  if (!request) {
    throw UsageError("Gatherer '", name_, "': ", call, " without a start() before it.");
  }
  request->wait(timeout_s > 0 ? timeout_s : timeout_s_.load(), check_interrupt);
  return request;
}

std::shared_ptr<Request> Gatherer::take_request(double timeout_s,
                                                const InterruptCheck& check_interrupt) {
  std::shared_ptr<Request> request = wait_for_request("finish()", timeout_s, check_interrupt);
  const std::lock_guard lock(mutex_);
  if (request_ != request) {
    throw UsageError("Gatherer '", name_, "': finish() by two threads for one step.");
  }
  request_.reset();
  return request;
}

std::vector<std::size_t> Gatherer::wait(double timeout_s, const InterruptCheck& check_interrupt) {
  return sizes_of(wait_for_request("wait()", timeout_s, check_interrupt)->gathered());
}

void Gatherer::finish(void* out, double timeout_s) {
  const auto request = take_request(timeout_s, {});
  const RecycledMemory& blocks = request->gathered().blocks;
  if (blocks.size() > 0) std::memcpy(out, blocks.data(), blocks.size());
}

RecycledMemory Gatherer::take(std::vector<std::size_t>& num_bytes, double timeout_s,
                              const InterruptCheck& check_interrupt) {
  const auto request = take_request(timeout_s, check_interrupt);
  num_bytes = sizes_of(request->gathered());
  return std::move(request->gathered().blocks);
}

}  // namespace tnt::comm
