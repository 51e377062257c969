#pragma once

#include <cstddef>
#include <cstdint>

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
/// A *notification* is a counter per (receiver, sender, id), or per (receiver,
/// id) if that has one sender only, that the sender sets and the receiver polls. Notifications from
/// one sender arrive in order, and after everything this sender put or wrote before: who sees the
/// notification sees the data. Values must grow and fit in 32 bits on
/// transports that say so.
///
/// Threads: put/notify of one (member, id) pair from one thread at a time;
/// everything else from any thread.
class Segment {
 public:
  virtual ~Segment() = default;

  virtual int rank() const = 0;  ///< the caller's index among the members
  virtual int size() const = 0;  ///< number of members

  /// This rank's part, 64-byte aligned, zeroed at creation.
  virtual std::byte* local() = 0;

  /// Another member's part, to be read. Only with the capability
  /// `is_peer_memory_readable`; null otherwise.
  virtual const std::byte* peer(int member) const = 0;

  /// The same, to be written as well. With the same capability; null otherwise.
  virtual std::byte* writable_peer(int /*member*/) { return nullptr; }

  /// For those who read their peers' memory: after a change of this rank's
  /// memory that others look at by themselves, wakes the ones that sleep over
  /// an operation. Writes before it are seen by whoever is woken.
  virtual void wake_others() {}

  /// Gives back the memory of this rank's part, as far as the operating system
  /// lets it; the part stays readable and writable. Nobody needs its contents
  /// any more.
  virtual void discard_local() {}

  /// Starts writing `num_bytes` from `from` in this rank's part to `to` in the
  /// part of `member`. The source must stay as it is until
  /// something that `member` did with the data is known. An aligned word of 8
  /// bytes arrives as a whole.
  virtual void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) = 0;

  /// Whether `num_messages` puts and notifications to `member` would be taken
  /// at once. A transport with queues says no while one is full; an operation
  /// then is `pending`. Without asking, put() and notify() may block.
  virtual bool has_room(int member, std::size_t num_messages) = 0;

  /// Sets the counter `id` of this sender at `member` and wakes that rank.
  virtual void notify(int member, NotificationId id, std::uint64_t value) = 0;

  /// The newest value that `sender` set for this rank. Never blocks.
  virtual std::uint64_t poll(int sender, NotificationId id) const = 0;
};

}  // namespace tnt::comm
