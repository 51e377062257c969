#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {

/// What the launcher says about ranks of this host whose process has ended: it
/// leaves `/dev/shm/tnt-<job id>-ended-<rank>` with a text such as "exit code 0".
///
/// A rank that ends before it has joined the job leaves no other trace, so
/// whoever waits for it looks here. Ranks are world ranks.
class EndedRanks {
 public:
  /// `job_id` may be empty: then nothing is ever known. `rank` is the caller's.
  EndedRanks(std::string job_id, int rank);

  /// How the process of a rank ended, if it has.
  std::optional<std::string> end_of(int rank) const;

  /// PeerLostError if one of the ranks, which have not joined the job, has
  /// ended. Looks from time to time only, so that it can be called in a loop.
  void require_running(const std::function<std::vector<int>()>& absent);

 private:
  std::string job_id_;
  int rank_;
  Clock::time_point next_look_;
};

}  // namespace tnt::comm
