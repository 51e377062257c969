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

/// Waits for the calls that start GPI-2, each of which needs all ranks and may never
/// return: a rank that is stopped, killed or not started is enough. Knows who has not
/// come: every rank shows its presence, rank 0 looks for all, the others for rank 0.
class StartWatch {
 public:
  /// `addresses` by rank; empty if this rank cannot read the machine file.
  StartWatch(const Environment& environment, std::vector<RankAddress> addresses,
             int first_presence_port, const Deadline& deadline);
  ~StartWatch();

  /// Until the call has returned, or some time after the deadline; says which. Reports a
  /// wait that takes long. PeerLostError if a rank has ended, what Ctrl-C throws.
  bool has_returned_in_time(const DetachableCall& call);

  /// A sentence about who has not come, as far as this rank knows.
  std::string absence() const;

 private:
  struct Search;

  void report();

  Environment environment_;
  Deadline deadline_;
  Presence presence_;
  EndedRanks ended_;
  std::shared_ptr<Search> search_;  // shared with the thread that makes it
  std::optional<DetachableCall> searching_;
  Clock::time_point begin_ = Clock::now();
  bool has_reported_ = false;
};

}  // namespace tnt::comm
