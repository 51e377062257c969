#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"
#include "tnt/comm/transport/rma/network_library.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// Makes a call of GPI-2 that posts a request, and makes it again while it returns
/// that time is over (1).
///
/// That only means that another thread of this process has kept the lock of the queue: nothing was
/// posted, and no other rank has to do with it. The lock is held for microseconds, but in a
/// container whose time on the processor is limited, or in a debugger, its holder may be stopped
/// for longer. So a wait ends when `deadline` does. Returns what the last call returned.
template <typename Call>
int post_when_unlocked(const Deadline& deadline, Call&& call) {
  int status = call();
  while (status == 1 && !deadline.is_over()) status = call();
  return status;
}

/// GASPI through a GPI-2 library: this process as one of its ranks.
///
/// GPI-2 cannot be left and joined again, so there is one per process, and it
/// is never ended: gaspi_proc_term waits for other ranks, and crashes at times
/// when one of them is dead. The kernel closes what it has opened.
class GaspiProcess final : public RmaDevice {
 public:
  /// Collective among all ranks of the job, blocking. Takes a few seconds: GPI-2 measures the clock
  /// of the processor. `addresses`: of all ranks, or none if they are not known.
  GaspiProcess(GaspiLibrary library, const Environment& environment,
               std::vector<RankAddress> addresses, const Deadline& deadline);

  std::string name() const override { return std::string("GPI-2 ") + library_.layout->name; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::byte* allocate(SegmentId segment, std::size_t num_bytes) override;
  void release(SegmentId segment) override;
  void introduce(SegmentId segment, int rank, const Deadline& deadline) override;
  void introduce_to_all(SegmentId segment) override;
  void write(const RmaWrite& request, int queue) override;
  void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
              int queue) override;
  std::uint32_t take_notification(SegmentId segment, std::size_t slot) override;
  std::size_t num_notifications() const override { return settings_.num_notifications; }
  int num_queues() const override { return settings_.num_queues; }
  std::size_t queue_capacity() const override { return settings_.queue_capacity; }
  std::size_t num_queued(int queue) const override;
  QueueState drain(int queue) override;
  std::vector<int> failed_ranks() const override;
  std::unique_ptr<HostProbe> probe_of_host(int rank) const override;

 private:
  void join(const Environment& environment);
  void synchronize();

  GaspiLibrary library_;
  const GaspiFunctions& functions_ = library_.functions;
  GaspiSettings settings_ = read_gaspi_settings(library_);
  std::vector<RankAddress> addresses_;
  int rank_;
  int size_;
  Deadline deadline_;                // of the start
  OpenSockets sockets_before_;       // the start
  std::optional<StartWatch> watch_;  // until all have started
};

}  // namespace tnt::comm
