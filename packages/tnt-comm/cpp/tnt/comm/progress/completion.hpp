#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

/// Counts how often a repeated block of work was completed, and carries the
/// error that ended it. Any number of threads may wait; waiting sleeps in the
/// kernel. An operation that runs once is complete when the count is 1.
///
/// Counts are compared modulo 2^31, so a wait must be for a nearby count.
class Completion {
 public:
  /// True when `count` completions have happened, or an error has.
  bool has_reached(std::uint32_t count) const;

  /// Sleeps until has_reached(count) or the deadline; says which.
  bool wait_until(std::uint32_t count, Clock::time_point end) const;

  /// Throws the stored error if the count was not reached before it.
  void rethrow_unless_completed(std::uint32_t count) const;

  void complete();

  /// The first error stays; later ones are ignored.
  void fail(const Error& error);

 private:
  static constexpr std::uint32_t kFailed = 1U << 31;

  std::atomic<std::uint32_t> word_{0};  // count, and kFailed
  std::optional<Error> error_;          // written once, before kFailed is set
};

}  // namespace tnt::comm
