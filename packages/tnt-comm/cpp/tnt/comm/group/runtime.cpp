#include "tnt/comm/group/runtime.hpp"

#include <algorithm>
#include <thread>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/group/group.hpp"
#include "tnt/comm/transport/shm/shm_transport.hpp"
#include "tnt/comm/transport/solo_transport.hpp"

namespace tnt::comm {
namespace {

std::unique_ptr<Transport> make_transport(const Environment& environment) {
  if (environment.transport == "gpi2") {
    throw UsageError(
        "TNT_TRANSPORT='gpi2': this build of tnt-comm connects the ranks of one host"
        " (TNT_TRANSPORT=auto or shm); it has no GPI-2 transport.");
  }
  if (environment.size == 1) return std::make_unique<SoloTransport>();
  if (environment.local_size != environment.size) {
    throw UsageError(text("The job has ranks on several hosts (TNT_SIZE=", environment.size,
                          ", TNT_LOCAL_SIZE=", environment.local_size,
                          "), but this build of tnt-comm connects the ranks of one host only."));
  }
  return std::make_unique<ShmTransport>(environment.job_id, environment.rank, environment.size,
                                        Deadline(environment.timeout_s),
                                        environment.stall_report_s);
}

EngineSettings engine_settings(const Environment& environment, Transport& transport) {
  EngineSettings settings;
  const auto num_cores = static_cast<int>(std::thread::hardware_concurrency());
  if (environment.local_size > num_cores) settings.poll.spin_time = std::chrono::microseconds(0);
  settings.heartbeat = [&transport] { transport.beat(); };
  return settings;
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  return ranks;
}

}  // namespace

Runtime::Runtime(const Environment& environment)
    : environment_(environment),
      transport_(make_transport(environment)),
      engine_(std::make_unique<Engine>(transport_->doorbell(),
                                       engine_settings(environment, *transport_))) {
  world_ = Group::create(*this, all_ranks(environment.size), "world");
}

Runtime::~Runtime() {
  finish();
}

void Runtime::watch(const std::shared_ptr<Group>& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
}

int Runtime::next_use_of(const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  const auto count = std::count(used_ranks_.begin(), used_ranks_.end(), ranks);
  used_ranks_.push_back(ranks);
  return static_cast<int>(count);
}

void Runtime::finish() {
  const std::lock_guard lock(mutex_);
  if (is_finished_) return;
  is_finished_ = true;
  std::string failure;
  for (const auto& weak : groups_) {
    const auto group = weak.lock();
    if (failure.empty() && group) failure = group->first_error();
  }
  transport_->leave(failure.empty() ? PeerState::finished : PeerState::failed, failure);
  engine_->stop(
      std::make_exception_ptr(UsageError(text("rank ", environment_.rank,
                                              ": tnt_comm.finalize() was called; no collective"
                                              " can be started or completed after it."))));
}

}  // namespace tnt::comm
