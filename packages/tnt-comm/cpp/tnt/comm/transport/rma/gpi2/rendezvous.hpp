#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tnt/comm/transport/rma/gpi2/control_message.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi.hpp"

namespace tnt::comm {

/// What a rank asks for when it creates a segment. All members must ask for the
/// same.
struct SegmentTerms {
  std::int64_t num_bytes = 0;
  std::int64_t num_notifications = 0;
  std::int64_t num_members = 0;
  bool operator==(const SegmentTerms&) const = default;
};

/// What other ranks have said about segments that are being created or given
/// back, by the segments' keys. Messages may come before this rank asks.
///
/// Threads: all functions may be called from any thread.
class Rendezvous {
 public:
  void note(int from, const ControlMessage& message);

  std::optional<SegmentTerms> terms_of(const std::string& key, int rank) const;
  std::optional<SegmentId> part_of(const std::string& key, int rank) const;
  bool has_released(const std::string& key, int rank) const;

  /// Keys are used once: after all members have released it, nobody asks again.
  void forget(const std::string& key, int rank);

 private:
  struct Said {
    std::optional<SegmentTerms> terms;
    std::optional<SegmentId> part;
    bool has_released = false;
  };
  Said said(const std::string& key, int rank) const;

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, Said> said_;
};

ControlMessage creating_message(const std::string& key, const SegmentTerms& terms);
ControlMessage ready_message(const std::string& key, SegmentId segment);
ControlMessage released_message(const std::string& key);

}  // namespace tnt::comm
