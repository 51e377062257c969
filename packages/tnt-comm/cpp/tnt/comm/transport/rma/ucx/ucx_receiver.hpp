#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "tnt/comm/transport/rma/ucx/remote_keys.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_message.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_segments.hpp"

namespace tnt::comm {

/// What comes from other ranks: puts data where it belongs, and shows notifications when all that
/// was sent before them is there.
///
/// Threads: all functions may be called from any thread.
class UcxReceiver {
 public:
  UcxReceiver(int size, UcxSegments& segments);

  /// A message; `data` is of its last part. Keys go where the caller wants them.
  void take(std::string_view row, std::string_view data, RemoteKeys& keys);

  bool has_greeted(int rank) const;

 private:
  /// One other rank.
  struct Sender {
    bool has_greeted = false;
    std::uint64_t num_delivered = 0;                    ///< notifications
    std::map<std::uint64_t, std::uint64_t> num_pieces;  ///< by number of the next notification
    std::map<std::uint64_t, UcxPart> held;              ///< notifications that came too early
  };

  void take_part(const UcxPart& part, std::string_view data, RemoteKeys& keys);
  void deliver(Sender& sender);

  UcxSegments& segments_;
  mutable std::mutex mutex_;
  std::vector<Sender> senders_;
};

}  // namespace tnt::comm
