#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_settings.hpp"
#include "tnt/comm/transport/rma/gpi2/inherited_sockets.hpp"
#include "tnt/comm/transport/rma/gpi2/machine_file.hpp"
#include "tnt/comm/transport/rma/gpi2/start_watch.hpp"

namespace tnt::comm {

/// GASPI through a GPI-2 library: this process as one of its ranks.
///
/// GPI-2 cannot be left and joined again, so there is one per process, and it
/// is never ended: gaspi_proc_term waits for other ranks, and crashes at times
/// when one of them is dead. The kernel closes what it has opened.
class GaspiProcess final : public Gaspi {
 public:
  /// Collective among all ranks of the job, blocking. Takes a few seconds: GPI-2
  /// measures the clock of the processor.
  /// `addresses`: of all ranks, or none if they are not known.
  GaspiProcess(GaspiLibrary library, const Environment& environment,
               std::vector<RankAddress> addresses, const Deadline& deadline);

  std::string name() const override { return std::string("GPI-2 ") + library_.layout->name; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::byte* allocate(SegmentId segment, std::size_t num_bytes) override;
  void release(SegmentId segment) override;
  void introduce(SegmentId segment, int rank, const Deadline& deadline) override;
  void introduce_to_all(SegmentId segment) override;
  void write(const GaspiWrite& request, int queue) override;
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
  void require(int status, const char* what) const;

  GaspiLibrary library_;
  const GaspiFunctions& functions_ = library_.functions;
  GaspiSettings settings_;
  std::vector<RankAddress> addresses_;
  int rank_;
  int size_;
  Deadline deadline_;  // of the start
  InheritedSockets sockets_;
  std::optional<StartWatch> watch_;  // until all have started
};

/// UsageError if GASPI_* and TNT_* variables contradict each other, one that
/// GPI-2 needs is not set, or the machine file is not what the job needs. Returns the
/// addresses in that file; none on ranks that cannot read it, as only rank 0 must.
std::vector<RankAddress> require_gaspi_environment(const Environment& environment);

}  // namespace tnt::comm
