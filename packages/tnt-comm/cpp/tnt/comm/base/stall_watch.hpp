#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace tnt::comm {

/// Reports a wait that cannot look after itself, such as one inside a foreign
/// library: as long as this object lives, the rank waits.
class StallWatch {
 public:
  /// Warns once, after `report_s`: "rank 1 has waited 5 s for <what>".
  StallWatch(int rank, std::string what, double report_s);
  ~StallWatch();

  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace tnt::comm
