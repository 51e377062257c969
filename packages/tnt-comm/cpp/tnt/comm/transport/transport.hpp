#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {

/// Names one notification counter of a segment.
using NotificationId = std::size_t;

/// How many members may set a notification of a segment at a receiver.
enum class Senders {
  all,  ///< each has a counter of its own
  one,  ///< always the same one: there is one counter, and networks have few of them
};

/// Memory that the members of a group registered together. Each member owns a
/// part of the same size; others reach it one-sidedly.
///
/// A *notification* is a counter per (receiver, sender, id), or per (receiver, id) if that has one
/// sender only, that the sender sets and the receiver polls. Notifications from one sender arrive
/// in order, and after everything this sender put or wrote before: who sees the notification sees
/// the data. Values must grow and fit in 32 bits on transports that say so.
///
/// Threads: put/notify of one (member, id) pair from one at a time; everything else from any.
class Segment {
 public:
  virtual ~Segment() = default;

  virtual int rank() const = 0;  ///< the caller's index among the members
  virtual int size() const = 0;  ///< number of members

  /// This rank's part, 64-byte aligned, zeroed at creation.
  virtual std::byte* local() = 0;

  /// Another member's part, to be read. Null without the capability `is_peer_memory_readable`.
  virtual const std::byte* peer(int member) const = 0;

  /// The same, to be written as well. With the same capability; null otherwise.
  virtual std::byte* writable_peer(int /*member*/) { return nullptr; }

  /// For those who read their peers' memory: after a change of this rank's
  /// memory that others look at by themselves, wakes the ones that sleep over
  /// an operation. Writes before it are seen by whoever is woken.
  virtual void wake_others() {}

  /// Gives back the memory of this rank's part, as far as the operating system lets it; the part
  /// stays readable and writable. Nobody needs its contents any more.
  virtual void discard_local() {}

  /// Starts writing `num_bytes` from `from` in this rank's part to `to` in the
  /// part of `member`. The source must stay as it is until
  /// something that `member` did with the data is known. An aligned word of 8
  /// bytes arrives as a whole. May stay here until the next notification to the member, or flush().
  virtual void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) = 0;

  /// From now on, what others put there, all of it between `to` and `to + num_bytes`, goes to
  /// `target` and not into this rank's part, until end_redirect() of the same place, after which
  /// nothing touches the target any more. False if this segment cannot do that.
  virtual bool redirect(std::size_t /*to*/, std::size_t /*num_bytes*/, std::byte* /*target*/) {
    return false;
  }
  virtual void end_redirect(std::size_t /*to*/) {}

  /// Whether `num_messages` puts and notifications to `member` would be taken
  /// at once. A transport with queues says no while one is full; an operation
  /// then is `pending`. Without asking, put() and notify() may block.
  virtual bool has_room(int member, std::size_t num_messages) = 0;

  /// Sets the counter `id` of this sender at `member` and wakes that rank.
  virtual void notify(int member, NotificationId id, std::uint64_t value) = 0;

  /// The same for one that more messages to that member may follow at once: it may stay here, and
  /// what was put before with it, until the next message to the member or flush().
  virtual void notify_later(int member, NotificationId id, std::uint64_t value) {
    notify(member, id, value);
  }
  /// Sends what has stayed here.
  virtual void flush() {}

  /// The newest value that `sender` set for this rank. Never blocks.
  virtual std::uint64_t poll(int sender, NotificationId id) const = 0;
};

/// Memory of this process, and what keeps it.
struct HostMemory {
  std::shared_ptr<void> owner = nullptr;
  std::byte* begin = nullptr;
  std::size_t num_bytes = 0;
};

/// What a transport can do beyond the interface's minimum; algorithms are chosen by it.
struct Capabilities {
  /// Segment::peer() works: a rank can compute straight from another's memory.
  bool is_peer_memory_readable = false;

  /// Peers' notifications ring the doorbell. Where they cannot, the engine
  /// looks for them at short intervals while operations are in flight.
  bool is_doorbell_rung_by_peers = true;

  /// SegmentRequest::num_counters() of a segment is at most this.
  std::size_t most_counters = std::numeric_limits<std::size_t>::max();
};

/// What is known about another rank's process.
enum class PeerState {
  starting,  ///< not yet joined
  running,
  finished,  ///< has called finalize(), or exited normally
  failed,    ///< gave up, with a reason
  dead,      ///< the process is gone without saying anything
  vanished,  ///< its host is gone, or the link to it, with a reason
};

/// One look at another rank.
struct PeerStatus {
  PeerState state = PeerState::running;
  double heartbeat_age_s = 0;  ///< since the rank's engine last showed that it runs
  /// What leave() said, or of `vanished`; how it ended, if `dead` and known.
  std::string reason = {};
  std::string host = {};
  int pid = 0;
};

/// What the members of a group agree on before they create a segment.
struct SegmentRequest {
  std::string key;                    ///< the same on all members, unique in the job
  std::vector<int> members;           ///< world ranks, ascending
  std::size_t num_bytes = 0;          ///< of each member's part
  std::size_t num_notifications = 0;  ///< ids 0 .. num_notifications-1
  std::string purpose = {};           ///< for messages, such as "group 'world'"
  Senders senders = Senders::all;     ///< of each notification of a receiver

  /// Called several times per second, or more often, in a wait for the members; may throw to end
  /// it.
  std::function<void()> look_around = [] {};

  /// What messages call it.
  const std::string& title() const { return purpose.empty() ? key : purpose; }

  /// The index of a world rank among the members.
  int index_of(int rank) const {
    return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  }

  /// Counters that each member has for the notifications it gets.
  std::size_t num_counters() const {
    return num_notifications * (senders == Senders::one ? 1 : members.size());
  }
};

/// The remedy where a member waits for others that do not come.
inline constexpr const char* kCreateTogether =
    "Every member of the group must create it, in the same order.";

/// Connects the ranks of a job.
///
/// The interface is one-sided on purpose: what shared memory does with a copy
/// and a store, GASPI does with a write and a notification. Ranks here are
/// world ranks; inside a segment they are indices of its members. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Which host a rank is on, counted from 0. Ranks of a host are consecutive.
  virtual int node_of(int rank) const = 0;

  virtual Capabilities capabilities() const = 0;

  /// Whether the members of a segment of these ranks will be able to read each
  /// other's memory: Segment::peer() works. The same on all of them.
  virtual bool is_readable_among(const std::vector<int>& /*members*/) const {
    return capabilities().is_peer_memory_readable;
  }

  /// Collective among the request's members, blocking. PeerLostError, timeout or
  /// CommError (for example: no memory left), also if it is of this rank only: the
  /// others then wait until the request's `look_around` ends that.
  virtual std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                                  const Deadline& deadline) = 0;

  /// Where this rank's engine sleeps; Segment::notify rings it.
  virtual Doorbell& doorbell() = 0;

  /// Local and cheap enough for several calls per second and rank.
  virtual PeerStatus status_of(int rank) const = 0;

  /// Tells the others that this rank is alive.
  virtual void beat() = 0;

  /// Tells the others that this rank will take no further part, and why, or what has failed before.
  /// What is said first counts: a rank that has failed stays so when it ends.
  virtual void leave(PeerState state, const std::string& reason) = 0;
};

}  // namespace tnt::comm
