#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/data_queues.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"
#include "tnt/comm/transport/rma/peer_table.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// Which segment ids of this rank are free. Every rank numbers its segments for
/// itself: what others need to know, they are told.
class SegmentIds {
 public:
  /// The smallest free id, if there is one.
  std::optional<SegmentId> take() {
    const std::lock_guard lock(mutex_);
    for (std::size_t id = 0; id < is_taken_.size(); ++id) {
      if (is_taken_[id]) continue;
      is_taken_[id] = true;
      return static_cast<SegmentId>(id);
    }
    return std::nullopt;
  }

  void give_back(SegmentId id) {
    const std::lock_guard lock(mutex_);
    is_taken_[id] = false;
  }

 private:
  std::mutex mutex_;
  std::array<bool, RmaDevice::kNumSegments> is_taken_{};
};

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

/// A segment that this rank does not use any more, or could not create.
struct RetiredSegment {
  std::string key;
  std::optional<SegmentId> id;  // of this rank's part, if it is there
  std::optional<int> queue;     // through which this rank has written, if it has
  std::vector<int> members;     // world ranks, this one among them
};

/// Segments on their way out. Other members may still write into the memory of
/// one, so it stays, and its id is not used again, until all of them have
/// released theirs or are gone.
///
/// Threads: all functions may be called from any thread.
class Retirement {
 public:
  Retirement(DataQueues& queues, Mailbox& mailbox, PeerTable& peers, Rendezvous& rendezvous,
             SegmentIds& ids);

  void add(RetiredSegment segment);

  /// Frees what can be freed; never blocks. To be called now and then.
  void advance();

 private:
  struct Entry {
    RetiredSegment segment;
    bool is_announced = false;
  };

  bool try_free(Entry& entry);

  RmaDevice& device_;
  DataQueues& queues_;
  Mailbox& mailbox_;
  PeerTable& peers_;
  Rendezvous& rendezvous_;
  SegmentIds& ids_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace tnt::comm
