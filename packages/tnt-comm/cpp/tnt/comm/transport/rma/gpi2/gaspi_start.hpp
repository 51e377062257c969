#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/ended_ranks.hpp"
#include "tnt/comm/transport/rma/presence.hpp"

namespace tnt::comm {

/// The addresses in a machine file, by rank. One host per line; empty lines do not
/// count. Refuses whatever GPI-2 misreads (UsageError with the number of the line):
/// more or fewer hosts than ranks, names of more than 62 characters or with blanks,
/// a last line without an end, more than 256 ranks of a host.
std::vector<RankAddress> parse_machine_file(const std::string& content, int size);

/// UsageError if GASPI_* and TNT_* variables contradict each other, one that
/// GPI-2 needs is not set, or the machine file GASPI_MFILE is not what the job needs. Returns the
/// addresses in that file; none on ranks that cannot read it, as only rank 0 must.
std::vector<RankAddress> require_gaspi_environment(const Environment& environment);

/// Waits for the calls that start GPI-2, each of which needs all ranks and may never
/// return: a rank that is stopped, killed or not started is enough. Knows who has not
/// come: every rank shows its presence, rank 0 looks for all, the others for rank 0.
class StartWatch {
 public:
  /// `addresses` by rank; empty if this rank cannot read the machine file.
  StartWatch(const Environment& environment, std::vector<RankAddress> addresses,
             int first_presence_port, const Deadline& deadline);

  /// Until the call has returned, or some time after the deadline; says which. Reports a
  /// wait that takes long. PeerLostError if a rank has ended, what Ctrl-C throws.
  bool has_returned_in_time(const DetachableCall& call);

  /// A sentence about who has not come, as far as this rank knows.
  std::string absence() const;

 private:
  void search();
  void report();

  Environment environment_;
  Deadline deadline_;
  Presence presence_;
  EndedRanks ended_;
  Clock::time_point begin_ = Clock::now();
  std::vector<RankAddress> addresses_;  // of those that are looked for, rank 0 first
  int first_port_;
  std::optional<DetachableCall> searching_;
  std::shared_ptr<std::vector<int>> found_ = std::make_shared<std::vector<int>>();  // by its thread
  Clock::time_point next_search_ = begin_ + Deadline::to_duration(environment_.stall_report_s);
  std::optional<std::vector<int>> absent_;  // of the last search
  bool has_reported_ = false;
};

}  // namespace tnt::comm
