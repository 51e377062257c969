#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/peer_table.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"

namespace tnt::comm {

/// The queues of a device: the first for control messages and heartbeats, the others for data.
///
/// A full queue is never posted to: GPI-2 would call the receiving rank corrupt. A queue on which
/// something failed is *spoilt*: its count of requests may be wrong from then on (the TCP device
/// reports one failure several times), so segments leave it. The control queue stays in use, since
/// nothing there depends on what it counts. Thread-safe.
class DataQueues {
 public:
  static constexpr int kControl = 0;

  /// `on_failure` is called, from any thread, when a request has failed.
  DataQueues(RmaDevice& device, std::function<void()> on_failure)
      : device_(device),
        on_failure_(std::move(on_failure)),
        is_spoilt_(static_cast<std::size_t>(device.num_queues())) {}

  /// A queue for a new segment; PeerLost error if all are spoilt.
  int assign() {
    const int num_data_queues = count() - 1;
    for (int attempt = 0; attempt < num_data_queues; ++attempt) {
      const auto turn = static_cast<unsigned>(next_.fetch_add(1));
      const int queue = 1 + static_cast<int>(turn % static_cast<unsigned>(num_data_queues));
      if (!is_spoilt(queue)) return queue;
    }
    throw Error(ErrorKind::peer_lost, "rank ", device_.rank(), ": all ", num_data_queues,
                " queues of ", device_.name(), " have failed with ranks that were lost.");
  }

  bool is_spoilt(int queue) const { return at(is_spoilt_, queue).load(); }

  /// Whether `num_requests` can be posted. Some slots stay free for threads that ask at once.
  bool has_room(int queue, std::size_t num_requests) {
    constexpr std::size_t kReserve = 64;
    const auto fits = [&] {
      return device_.num_queued(queue) + num_requests + kReserve <= device_.queue_capacity();
    };
    if (fits()) return true;
    is_idle(queue);  // frees slots
    return fits();
  }

  /// Whether all that was posted is complete.
  bool is_idle(int queue) {
    const QueueState state = device_.drain(queue);
    if (state == QueueState::failed) {
      if (queue != kControl) at(is_spoilt_, queue).store(true);
      on_failure_();
    }
    return state == QueueState::idle;
  }

  int count() const { return static_cast<int>(is_spoilt_.size()); }

 private:
  RmaDevice& device_;
  std::function<void()> on_failure_;
  std::atomic<int> next_{0};
  std::vector<std::atomic<bool>> is_spoilt_;
};

// A notification of a device carries 32 bits that must not be zero, a notification counter of a
// segment has 64 and only grows. The word holds the counter's lower 31 bits, and a one.

inline constexpr std::uint64_t kCounterWordModulus = std::uint64_t{1} << 31;

inline std::uint32_t word_of_counter(std::uint64_t counter) {
  return static_cast<std::uint32_t>(counter % kCounterWordModulus) | 0x80000000U;
}

/// The counter behind a word that came after `newest`. Words that were overtaken
/// give `newest`. Both are less than 2^30 apart: nobody runs ahead that far.
inline std::uint64_t counter_of_word(std::uint32_t word, std::uint64_t newest) {
  const std::uint64_t ahead =
      (word - word_of_counter(newest)) % static_cast<std::uint32_t>(kCounterWordModulus);
  return ahead < kCounterWordModulus / 2 ? newest + ahead : newest;
}

/// What ranks tell each other apart from the data of segments.
enum class ControlKind : std::uint32_t {
  hello,     ///< who and where the sender is: numbers of `Place`, pid; text: host and job
  leaving,   ///< numbers: PeerState; text: reason
  creating,  ///< the sender creates a segment; numbers: bytes, notifications, members; text: key
  ready,     ///< its part is there; numbers: its segment id; text: key
  released,  ///< it will not write into others' parts any more; text: key
};

/// One message of fixed size. Trivially copyable: it travels as it is.
struct ControlMessage {
  using Numbers = std::array<std::int64_t, 6>;

  ControlKind kind{};
  std::uint32_t text_bytes = 0;
  Numbers numbers{};
  std::array<char, 1032> letters{};

  ControlMessage() = default;
  /// The text is cut off if it is too long.
  ControlMessage(ControlKind kind, const std::string& text, const Numbers& numbers = {})
      : kind(kind), numbers(numbers) {
    text_bytes = static_cast<std::uint32_t>(text.copy(letters.data(), letters.size()));
  }

  std::string text() const {
    return {letters.data(), std::min<std::size_t>(text_bytes, letters.size())};
  }
};
static_assert(std::is_trivially_copyable_v<ControlMessage>);
static_assert(sizeof(ControlMessage) % 64 == 0);

/// Ordered messages from every rank to every other one, and signs of life,
/// through one segment per rank, the *control segment*.
///
/// It holds kDepth places for messages of every other rank, and the same for messages to it: the
/// sender writes its place into the receiver's and raises the count of messages; the receiver takes
/// them and raises the count of those it has taken. So a place is reused when its message has
/// certainly arrived, whatever a queue says about its requests, and a sender knows what was read.
///
/// Nothing here blocks: messages that find no place wait in this rank. Thread-safe.
class Mailbox {
 public:
  using Handler = std::function<void(int from, const ControlMessage&)>;

  /// Collective: makes the control segment known to all ranks.
  Mailbox(RmaDevice& device, SegmentId segment, PeerTable& peers, DataQueues& queues,
          Handler handler)
      : device_(device),
        segment_(segment),
        peers_(peers),
        queues_(queues),
        handler_(std::move(handler)),
        memory_(device.allocate(segment, place(true, device.size(), 0))),  // of all messages
        ranks_(static_cast<std::size_t>(device.size())) {
    const std::size_t num_slots = device_.num_notifications();
    if (slot(device_.size(), Counter::messages) > num_slots) {
      throw Error(ErrorKind::comm, device_.name(), " can connect at most ",
                  num_slots / kNumCounters, " ranks. Received: TNT_SIZE=", device_.size(), ".");
    }
    device_.introduce_to_all(segment_);
  }

  /// Appends a message; nothing if the rank is not reachable. Not to itself.
  void send(int rank, const ControlMessage& message) {
    const std::lock_guard lock(mutex_);
    if (!peers_.is_reachable(rank)) return;
    correspondent(rank).waiting.push_back(message);
    send_to(rank);
  }

  /// Hands what has arrived to the handler, in order, and sends what waits.
  void exchange() {
    const std::lock_guard lock(mutex_);
    for (int rank = 0; rank < device_.size(); ++rank) {
      if (rank == device_.rank()) continue;
      take_from(rank);
      send_to(rank);
    }
  }

  /// Shows these ranks that this one is alive.
  void beat(const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex_);
    for (const int rank : ranks) {
      if (!peers_.is_reachable(rank) || !queues_.has_room(DataQueues::kControl, 1)) continue;
      announce(rank, Counter::beats, 1);
    }
  }

  /// Whether all messages to a rank were taken by it.
  bool is_delivered(int rank) const {
    const std::lock_guard lock(mutex_);
    const Correspondent& other = at(ranks_, rank);
    return other.waiting.empty() && other.num_taken_by_it == other.num_sent;
  }

 private:
  static constexpr std::size_t kDepth = 8;

  struct Correspondent {
    std::deque<ControlMessage> waiting;
    std::uint64_t num_sent = 0;
    std::uint64_t num_taken_by_it = 0;
    std::uint64_t num_received = 0;
    std::uint64_t num_confirmed = 0;  // of those received, told to the sender
  };

  // Every rank has its notification slots in the order of these.
  enum class Counter : std::size_t { messages, taken, beats };
  static constexpr std::size_t kNumCounters = 3;

  Correspondent& correspondent(int rank) { return at(ranks_, rank); }

  std::size_t slot(int sender, Counter which) const {
    return static_cast<std::size_t>(sender) * kNumCounters + static_cast<std::size_t>(which);
  }

  void announce(int rank, Counter which, std::uint64_t value) {
    post(rank, [&] {
      device_.notify(rank, segment_, slot(device_.rank(), which), word_of_counter(value),
                     DataQueues::kControl);
    });
  }

  // A count beyond `most` would make this rank read or send what is not there.
  std::uint64_t poll(int sender, Counter which, std::uint64_t newest, std::uint64_t most) {
    const std::uint32_t word = device_.take_notification(segment_, slot(sender, which));
    const std::uint64_t count = word == 0 ? newest : counter_of_word(word, newest);
    if (count <= most) return count;
    throw Error(ErrorKind::comm, "rank ", sender, " counts ", count,
                " control messages, but at most ", most,
                " can have been sent: what the network delivers is not what that rank has sent.");
  }

  // Incoming places of all ranks, then outgoing ones.
  std::size_t place(bool is_outgoing, int rank, std::uint64_t index) const {
    const auto block = static_cast<std::size_t>(is_outgoing ? device_.size() + rank : rank);
    return (block * kDepth + index % kDepth) * sizeof(ControlMessage);
  }

  // The caller may be a thread that has nobody to tell.
  template <typename Function>
  void post(int rank, Function&& function) {
    try {
      function();
    } catch (const Error&) {
      peers_.mark_dead(rank);
    }
  }

  void take_from(int rank) {
    Correspondent& other = correspondent(rank);
    const std::uint64_t beats = device_.take_notification(segment_, slot(rank, Counter::beats));
    const std::uint64_t num_messages =
        poll(rank, Counter::messages, other.num_received, other.num_received + kDepth);
    if (beats != 0 || num_messages != other.num_received) peers_.heard_from(rank);
    while (other.num_received < num_messages) {
      ControlMessage message;
      std::memcpy(&message, memory_ + place(false, rank, other.num_received), sizeof message);
      ++other.num_received;  // before, so that one that is refused does not come again and again
      handler_(rank, message);
    }
  }

  void send_to(int rank) {
    Correspondent& other = correspondent(rank);
    other.num_taken_by_it = poll(rank, Counter::taken, other.num_taken_by_it, other.num_sent);
    if (!peers_.is_reachable(rank)) {
      other.waiting.clear();
      return;
    }
    if (other.num_confirmed != other.num_received && queues_.has_room(DataQueues::kControl, 1)) {
      announce(rank, Counter::taken, other.num_received);
      other.num_confirmed = other.num_received;
    }
    while (!other.waiting.empty() && other.num_sent < other.num_taken_by_it + kDepth &&
           queues_.has_room(DataQueues::kControl, 2)) {
      const std::size_t own_place = place(true, rank, other.num_sent);
      std::memcpy(memory_ + own_place, &other.waiting.front(), sizeof(ControlMessage));
      other.waiting.pop_front();
      const RmaWrite request{.from_segment = segment_,
                             .from = own_place,
                             .rank = rank,
                             .to_segment = segment_,
                             .to = place(false, device_.rank(), other.num_sent),
                             .num_bytes = sizeof(ControlMessage)};
      post(rank, [&] { device_.write(request, DataQueues::kControl); });
      announce(rank, Counter::messages, ++other.num_sent);
    }
  }

  RmaDevice& device_;
  SegmentId segment_;
  PeerTable& peers_;
  DataQueues& queues_;
  Handler handler_;
  std::byte* memory_;
  mutable std::mutex mutex_;
  std::vector<Correspondent> ranks_;
};

}  // namespace tnt::comm
