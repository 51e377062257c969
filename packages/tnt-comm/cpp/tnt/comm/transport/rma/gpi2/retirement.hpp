#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/transport/rma/gpi2/data_queues.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi.hpp"
#include "tnt/comm/transport/rma/gpi2/mailbox.hpp"
#include "tnt/comm/transport/rma/gpi2/peer_table.hpp"
#include "tnt/comm/transport/rma/gpi2/rendezvous.hpp"
#include "tnt/comm/transport/rma/gpi2/segment_ids.hpp"

namespace tnt::comm {

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
  Retirement(Gaspi& gaspi, DataQueues& queues, Mailbox& mailbox, PeerTable& peers,
             Rendezvous& rendezvous, SegmentIds& ids);

  void add(RetiredSegment segment);

  /// Frees what can be freed; never blocks. To be called now and then.
  void advance();

 private:
  struct Entry {
    RetiredSegment segment;
    bool is_announced = false;
  };

  bool try_free(Entry& entry);

  Gaspi& gaspi_;
  DataQueues& queues_;
  Mailbox& mailbox_;
  PeerTable& peers_;
  Rendezvous& rendezvous_;
  SegmentIds& ids_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace tnt::comm
