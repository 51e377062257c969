#pragma once

#include <string>

#include "tnt/comm/communicator/group.hpp"

namespace tnt::comm {

/// What the calling thread says about its calls (see tnt_comm_set_label).
struct ThreadLabel {
  std::string label;
  std::string caller;
};

inline ThreadLabel& thread_label() {
  thread_local ThreadLabel label;
  return label;
}

/// The same for a call; valid until the thread changes it.
inline CallLabel call_label() {
  return {thread_label().label, thread_label().caller};
}

}  // namespace tnt::comm
