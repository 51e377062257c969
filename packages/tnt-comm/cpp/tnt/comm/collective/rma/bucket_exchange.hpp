#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/rma/run_queue.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Sums a vector that lies in registered memory over the members of a segment
/// of Senders::one, one per step, over and over: the part of a bucket's allreduce that crosses
/// the network.
///
/// The vector is cut into blocks, each with a schedule of its own in its own
/// part of the two areas. A block may be sent as soon as it is there, and used
/// as soon as it is back. With one block (`halving_doubling`) a step has the
/// fewest messages; with several (`pipelined`) some are on the network while
/// others are summed.
///
/// Steps use two slots in turn: when a rank has finished step s-1, all have
/// begun it and hence finished s-2, so that nobody uses that slot any more.
/// Memory: twice the vector and the landing area, which is as large for split
/// exchanges, and S times as large for whole ones, which are for small vectors.
class BucketExchange {
 public:
  /// What an exchange among `size` members needs of their segment.
  static MemoryNeeds memory_needs(const MessagePattern& pattern, int size, std::size_t num_bytes);

  /// The memory begins at the offset and the notification.
  BucketExchange(std::shared_ptr<Segment> segment, const MessagePattern& pattern, DType dtype,
                 std::size_t count, std::size_t offset, NotificationId notification);

  /// Where the vector of a step is to be put.
  std::byte* input(std::uint64_t step) const;
  /// The sum, when the step is done.
  const std::byte* result(std::uint64_t step) const;

  std::size_t num_blocks() const { return blocks_.size(); }
  Range block(std::size_t index) const { return blocks_[index]; }  ///< elements

  /// Begins a step; blocks of it are given with push(), in order.
  void begin(std::uint64_t step);
  void push();
  std::size_t num_pushed() const { return num_pushed_; }

  /// Does what can be done without waiting; true if that was anything.
  bool advance();
  /// Blocks, from the first, whose sum is there.
  std::size_t num_done() const { return num_done_; }
  bool is_done() const { return num_done_ == num_blocks(); }

  /// Appends the members that the blocks under way wait for.
  void append_missing(std::vector<int>& members) const { runs_.append_missing(members); }

  /// Whether the member is known to have begun the step.
  bool has_begun(int member) const;

 private:
  std::uint64_t value_of(std::size_t block) const;
  std::size_t slot_offset(std::uint64_t step) const;

  std::shared_ptr<Segment> segment_;
  NotificationId id_;  // the first one
  std::size_t offset_;
  std::size_t slot_bytes_ = 0;
  std::vector<Range> blocks_;
  std::vector<Schedule> schedules_;  // of the blocks
  std::size_t element_bytes_;
  TreeReducer reducer_;
  RunQueue runs_;
  std::uint64_t step_ = 0;
  std::size_t num_pushed_ = 0;
  std::size_t num_done_ = 0;
};

}  // namespace tnt::comm
