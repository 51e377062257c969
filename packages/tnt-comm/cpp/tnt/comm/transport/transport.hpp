#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/sync.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

/// What a transport can do beyond the interface's minimum; algorithms are
/// chosen by it.
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
  std::string reason;  ///< what leave() said, or of `vanished`; how it ended, if `dead` and known
  std::string host;
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

  /// Called several times per second, or more often, in a wait for the members;
  /// may throw to end it.
  std::function<void()> look_around = [] {};

  /// What messages call it.
  const std::string& title() const { return purpose.empty() ? key : purpose; }

  /// Counters that each member has for the notifications it gets.
  std::size_t num_counters() const {
    return num_notifications * (senders == Senders::one ? 1 : members.size());
  }
};

/// Connects the ranks of a job.
///
/// The interface is one-sided on purpose: what shared memory does with a copy
/// and a store, GASPI does with a write and a notification. Ranks here are
/// world ranks; inside a segment they are indices of its members.
///
/// Threads: all functions may be called from any thread.
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

  /// Tells the others that this rank will take no further part, and why, or what
  /// has failed before. What is said first counts: a rank that has failed stays so when
  /// it ends.
  virtual void leave(PeerState state, const std::string& reason) = 0;
};

}  // namespace tnt::comm
