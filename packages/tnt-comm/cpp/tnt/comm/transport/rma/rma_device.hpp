#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {

using SegmentId = std::uint8_t;

/// One write into the memory of another rank.
struct RmaWrite {
  SegmentId from_segment = 0;  ///< of this rank
  std::size_t from = 0;        ///< offset in it
  int rank = 0;
  SegmentId to_segment = 0;  ///< of that rank
  std::size_t to = 0;
  std::size_t num_bytes = 0;
};

/// Asks whether another host is there, which its kernel answers whatever its processes do.
class HostProbe {
 public:
  enum class Answer {
    none,   ///< not yet, or never
    given,  ///< the host is there
    moot,   ///< nobody could be asked: no descriptors left, say
  };

  virtual ~HostProbe() = default;

  /// Name or address, for messages.
  virtual std::string host() const = 0;

  /// Asks, and does not wait. The question before counts no more.
  virtual void ask() = 0;

  /// To the last question.
  virtual Answer answer() = 0;
};

/// What became of the requests of a queue.
enum class QueueState {
  idle,    ///< none is left
  busy,    ///< some are on their way
  failed,  ///< one has failed since the last look; failed_ranks() may tell whose
};

/// What a network library must be able to do: remote writes and notifications, ordered per
/// queue and receiver, as GASPI has them. The rest of the transport (handshakes, liveness, flow
/// control) does not know which library that is, and is tested without one.
///
/// No call waits for another rank, except introduce() and introduce_to_all().
/// Posting takes a slot of a queue, of which there must be one: see
/// num_queued(). Errors that cannot be another rank's death are CommErrors. Thread-safe.
class RmaDevice {
 public:
  virtual ~RmaDevice() = default;

  /// The library and its version, such as "GPI-2 1.6.0".
  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Memory that others may write into once they know it: zeroed, 64-byte
  /// aligned, alone in its pages. With it come num_notifications() notification slots of 32 bits.
  virtual std::byte* allocate(SegmentId segment, std::size_t num_bytes) = 0;
  virtual void release(SegmentId segment) = 0;

  /// Makes a segment of this rank known to `rank`. Blocks while the process of
  /// `rank` is stopped, whatever the deadline; never call it where that hurts.
  virtual void introduce(SegmentId segment, int rank, const Deadline& deadline) = 0;

  /// Makes a segment of each rank known to all ranks of the job, which call this at the
  /// same time, and returns when all have done so. Once per job, at its start.
  virtual void introduce_to_all(SegmentId segment) = 0;

  /// Requests to one rank on one queue arrive in the order in which they were
  /// posted, also a notification behind a write. At most kMaxWriteBytes. May leave with the
  /// notification behind it, or when the queue is drained.
  virtual void write(const RmaWrite& request, int queue) = 0;
  virtual void notify(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                      int queue) = 0;

  /// The same, but it may wait for the next request to that rank, or for flush().
  virtual void notify_later(int rank, SegmentId to_segment, std::size_t slot, std::uint32_t value,
                            int queue) {
    notify(rank, to_segment, slot, value, queue);
  }
  /// Posts what waits for other requests. So does drain().
  virtual void flush(int /*queue*/) {}

  /// See Segment. A write that lies in the range as a whole goes to the target.
  virtual bool redirect(SegmentId /*segment*/, std::size_t /*to*/, std::size_t /*num_bytes*/,
                        std::byte* /*target*/) {
    return false;
  }
  virtual void end_redirect(SegmentId /*segment*/, std::size_t /*to*/) {}

  /// The value of a slot of an own segment, which becomes 0; 0 if there was none.
  virtual std::uint32_t take_notification(SegmentId segment, std::size_t slot) = 0;

  virtual std::size_t num_notifications() const = 0;
  virtual int num_queues() const = 0;
  virtual std::size_t queue_capacity() const = 0;
  virtual std::size_t num_queued(int queue) const = 0;

  /// Frees the slots of requests that are complete: those whose source may be overwritten.
  virtual QueueState drain(int queue) = 0;

  /// Ranks to which a request has ever failed, which means that they are gone.
  virtual std::vector<int> failed_ranks() const = 0;

  /// Asks the host of a rank whether it is there; null if its address is not known.
  virtual std::unique_ptr<HostProbe> probe_of_host(int rank) const = 0;

  static constexpr std::size_t kMaxWriteBytes = std::size_t{1} << 30;
  static constexpr int kNumSegments = 255;
};

}  // namespace tnt::comm
