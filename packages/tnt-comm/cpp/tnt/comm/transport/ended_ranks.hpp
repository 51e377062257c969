#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
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
  EndedRanks(std::string job_id, int rank)
      : job_id_(std::move(job_id)), rank_(rank), next_look_(Clock::now()) {}

  /// How the process of a rank ended, if it has.
  std::optional<std::string> end_of(int rank) const {
    if (job_id_.empty()) return std::nullopt;
    const std::string name = text("/tnt-", job_id_, "-ended-", rank);
    const int descriptor = ::shm_open(name.c_str(), O_RDONLY, 0);
    if (descriptor < 0) return std::nullopt;
    std::optional<std::string> end;
    if (is_ours(descriptor)) end = read_line(descriptor);
    ::close(descriptor);
    return end;
  }

  /// PeerLostError if one of the ranks, which have not joined the job, has
  /// ended. Looks from time to time only, so that it can be called in a loop.
  void require_running(const std::function<std::vector<int>()>& absent) {
    if (job_id_.empty() || Clock::now() < next_look_) return;
    next_look_ = Clock::now() + kLookInterval;
    for (const int rank : absent()) {
      const auto end = rank == rank_ ? std::nullopt : end_of(rank);
      if (!end) continue;
      // It may have joined and ended just before this look.
      const std::vector<int> still_absent = absent();
      if (std::find(still_absent.begin(), still_absent.end(), rank) == still_absent.end()) continue;
      throw Error(ErrorKind::peer_lost, "rank ", rank_, ": rank ", rank, " has ended",
                  end->empty() ? "" : text(" (", *end, ")"),
                  " before it joined the job. Every rank must run the same script up to its"
                  " end; look at the output of that rank first.")
          .caused_by(rank);
    }
  }

 private:
  static constexpr auto kLookInterval = std::chrono::milliseconds(50);

  static bool is_ours(int descriptor) {
    struct stat status {};
    return ::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid();
  }

  // The first line of a file. A few words, so that one read gets them.
  static std::string read_line(int descriptor) {
    std::array<char, 200> content{};
    const ssize_t count = ::read(descriptor, content.data(), content.size());
    const std::string all(content.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    return all.substr(0, all.find('\n'));
  }

  std::string job_id_;
  int rank_;
  Clock::time_point next_look_;
};

}  // namespace tnt::comm
