#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "tnt/comm/transport/rma/gpi2/control_message.hpp"
#include "tnt/comm/transport/rma/gpi2/data_queues.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi.hpp"
#include "tnt/comm/transport/rma/gpi2/peer_table.hpp"

namespace tnt::comm {

/// Ordered messages from every rank to every other one, and signs of life,
/// through one segment per rank, the *control segment*.
///
/// It holds kDepth places for messages of every other rank, and the same for
/// messages to it: the sender writes its place into the receiver's and raises
/// the count of messages; the receiver takes them and raises the count of those
/// it has taken. So a place is reused when its message has certainly arrived,
/// whatever a queue says about its requests, and a sender knows what was read.
///
/// Nothing here blocks: messages that find no place wait in this rank.
///
/// Threads: all functions may be called from any thread.
class Mailbox {
 public:
  using Handler = std::function<void(int from, const ControlMessage&)>;

  /// Collective: makes the control segment known to all ranks.
  Mailbox(Gaspi& gaspi, SegmentId segment, PeerTable& peers, DataQueues& queues, Handler handler);

  /// Appends a message; nothing if the rank is not reachable. Not to itself.
  void send(int rank, const ControlMessage& message);

  /// Hands what has arrived to the handler, in order, and sends what waits.
  void exchange();

  /// Shows these ranks that this one is alive.
  void beat(const std::vector<int>& ranks);

  /// Whether all messages to a rank were taken by it.
  bool is_delivered(int rank) const;

 private:
  static constexpr std::size_t kDepth = 8;

  struct Correspondent {
    std::deque<ControlMessage> waiting;
    std::uint64_t num_sent = 0;
    std::uint64_t num_taken_by_it = 0;
    std::uint64_t num_received = 0;
    std::uint64_t num_confirmed = 0;  // of those received, told to the sender
    std::uint64_t num_beats = 0;
  };

  // Every rank has its notification slots in the order of these.
  enum class Counter : std::size_t { messages, taken, beats };
  static constexpr std::size_t kNumCounters = 3;

  Correspondent& correspondent(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::size_t slot(int sender, Counter which) const;
  void announce(int rank, Counter which, std::uint64_t value);
  std::uint64_t poll(int sender, Counter which, std::uint64_t newest, std::uint64_t most);
  std::size_t place(bool is_outgoing, int rank, std::uint64_t index) const;
  template <typename Function>
  void post(int rank, Function&& function);
  void take_from(int rank);
  void send_to(int rank);

  Gaspi& gaspi_;
  SegmentId segment_;
  PeerTable& peers_;
  DataQueues& queues_;
  Handler handler_;
  std::byte* memory_;
  mutable std::mutex mutex_;
  std::vector<Correspondent> ranks_;
};

}  // namespace tnt::comm
