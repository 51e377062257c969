#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "tnt/comm/progress/operation.hpp"

namespace tnt::comm {

/// Operations that must run one after the other, in the order of submission:
/// those of one channel. Streams are independent of each other, so one that
/// has to wait holds up nobody else.
///
/// A thread may *hold* a stream that has nothing to do, and run an operation
/// by itself; what others submit meanwhile waits until it is released: see
/// Engine::Hold.
///
/// Only the engine touches it, its state aside under its lock.
class Stream : public std::enable_shared_from_this<Stream> {
 private:
  friend class Engine;
  static constexpr std::uint32_t kHeld = 1U << 31;

  std::atomic<std::uint32_t> state_{0};  // number of unfinished operations, and kHeld
  std::deque<std::shared_ptr<Operation>> operations_;
  bool is_listed_ = false;  // the engine has it among those that have work
};

}  // namespace tnt::comm
