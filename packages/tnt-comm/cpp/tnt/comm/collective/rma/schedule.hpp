#pragma once

#include <cstddef>
#include <vector>

#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// One message of a round: a put, if there are bytes, and a notification.
struct Message {
  int member = 0;             ///< who gets it
  std::size_t from = 0;       ///< in the sender's slot
  std::size_t to = 0;         ///< in the receiver's slot
  std::size_t num_bytes = 0;  ///< 0: only the notification
  NotificationId id = 0;
};

/// A notification that a round waits for.
struct Arrival {
  int member = 0;
  NotificationId id = 0;
};

/// What one rank does between two waits: it sends, waits, and combines.
struct Round {
  std::vector<Message> sends;
  std::vector<Arrival> arrivals;

  /// Places in the own slot, in the order of the sum; none: nothing is
  /// combined. `target` may be one of them.
  std::vector<std::size_t> operands;
  std::size_t target = 0;
  std::size_t num_bytes = 0;
};

/// All that one rank does to take one block of a collective through a slot.
/// Pure data: places are bytes from the begin of the slot, the same on all
/// ranks, and notification numbers count from 0.
struct Schedule {
  std::vector<Round> rounds;
  std::size_t result = 0;  ///< where the outcome lies at the end
};

/// Where the two areas of a slot begin. Ranks fill and send from the *work*
/// area; what others send them to be combined *lands* in the other one.
struct Areas {
  std::size_t work = 0;
  std::size_t landing = 0;
};

/// Bytes of each area that a schedule uses.
struct AreaSizes {
  std::size_t work = 0;
  std::size_t landing = 0;
};

}  // namespace tnt::comm
