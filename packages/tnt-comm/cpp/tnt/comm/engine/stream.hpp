#pragma once

#include <deque>
#include <memory>

#include "tnt/comm/engine/operation.hpp"

namespace tnt::comm {

/// Operations that must run one after the other, in the order of submission:
/// those of one channel. Streams are independent of each other, so one that
/// has to wait holds up nobody else.
///
/// Only the engine touches it, under its lock.
class Stream {
 private:
  friend class Engine;
  std::deque<std::shared_ptr<Operation>> operations_;
  bool is_listed_ = false;  // the engine has it among those that have work
};

}  // namespace tnt::comm
